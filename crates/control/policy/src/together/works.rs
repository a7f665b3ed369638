//! What processes get done per second, where it is counted, and how much that differs by chance.

use std::collections::BTreeMap;

use egeria_facts::{ProcessAccesses, ProcessKey};

use crate::swing::Swing;

/// Of each process: its work per second in the last window, and how much it differs from window to window while nothing
/// is changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Works(BTreeMap<ProcessKey, (f64, Swing)>);

impl Works {
    /// Takes a window. `is_usual`: nothing was placed, so that what differs from the last one differs by chance.
    pub(super) fn note(&mut self, processes: &[ProcessAccesses], is_usual: bool) {
        let counted = processes.iter().filter_map(|each| {
            let work_s = each.work_s.filter(|work_s| *work_s > 0.0)?;
            let last = self.0.get(&each.process).copied();
            let (last_s, mut swing) = last.unwrap_or((work_s, Swing::default()));
            swing.note(last.filter(|_| is_usual).map(|_| work_s / last_s));
            Some((each.process, (work_s, swing)))
        });
        self.0 = counted.collect();
    }

    /// By which logarithm the work of a process may differ by chance; 0 where that is not known.
    pub(super) fn chance_ln(&self, process: ProcessKey) -> f64 {
        self.0
            .get(&process)
            .map_or(0.0, |(_, swing)| swing.chance_ln())
    }
}
