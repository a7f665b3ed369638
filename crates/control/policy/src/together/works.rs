//! What processes get done per second, where it is counted, and how much that differs by chance.

use std::collections::BTreeMap;

use egeria_facts::{ProcessAccesses, ProcessKey};

use crate::swing::Swing;

/// Two windows of a program are of the same kind of work if its accesses per work differ by less than this part.
const SAME_WORK: f64 = 0.2;

/// What a process got done in a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// Work per second.
    pub(super) work_s: f64,
    /// Accesses per work.
    pub(super) accesses: f64,
}

impl Done {
    /// `None` where it is not counted.
    pub(super) fn of(facts: &ProcessAccesses) -> Option<Done> {
        let work_s = facts.work_s.filter(|work_s| *work_s > 0.0)?;
        let rates = facts.nodes.iter().flat_map(|each| &each.accesses_s);
        Some(Done {
            work_s,
            accesses: rates.sum::<f64>() / work_s,
        })
    }

    /// Whether another window had the same kind of work.
    pub(super) fn is_like(self, other: Done) -> bool {
        (self.accesses - other.accesses).abs() <= SAME_WORK * other.accesses
    }
}

/// Work that differs less by chance, as a logarithm, is compared by single windows.
const STEADY: f64 = 0.03;
/// Windows of the same kind of work whose mean is taken where work differs by chance.
const WINDOWS: usize = 8;

/// A process.
#[derive(Clone, Debug)]
struct Past {
    last: Done,
    /// Work per second of the last windows of the same kind of work while nothing was changed, the latest last.
    works_s: Vec<f64>,
    /// How much that differs from window to window.
    swing: Swing,
}

/// All processes with counted work.
#[derive(Clone, Debug, Default)]
pub(super) struct Works(BTreeMap<ProcessKey, Past>);

impl Works {
    /// Takes a window. `is_usual`: nothing was placed, so that what differs from the last one differs by chance.
    pub(super) fn note(&mut self, processes: &[ProcessAccesses], is_usual: bool) {
        let mut before = std::mem::take(&mut self.0);
        let counted = processes.iter().filter_map(|each| {
            let done = Done::of(each)?;
            let mut past = before.remove(&each.process).unwrap_or_else(|| Past {
                last: done,
                works_s: Vec::new(),
                swing: Swing::default(),
            });
            if !is_usual || !done.is_like(past.last) {
                past.works_s.clear();
            } else if let Some(last_s) = past.works_s.last() {
                past.swing.note(Some(done.work_s / last_s));
            }
            past.works_s.push(done.work_s);
            if past.works_s.len() > WINDOWS {
                past.works_s.remove(0);
            }
            past.last = done;
            Some((each.process, past))
        });
        self.0 = counted.collect();
    }

    /// What a process got done before a placement: in this window, or in the mean of those like it if they differ by
    /// more than some per cent.
    pub(super) fn before(&self, facts: &ProcessAccesses) -> Option<Done> {
        let done = Done::of(facts)?;
        let past = self.0.get(&facts.process);
        let past = past.filter(|past| past.swing.chance_ln() > STEADY && !past.works_s.is_empty());
        let mean_s = past.map(|past| past.works_s.iter().sum::<f64>() / past.works_s.len() as f64);
        Some(Done {
            work_s: mean_s.unwrap_or(done.work_s),
            ..done
        })
    }

    /// By which logarithm the work of a process may differ by chance; 0 where that is not known.
    pub(super) fn chance_ln(&self, process: ProcessKey) -> f64 {
        self.0
            .get(&process)
            .map_or(0.0, |past| past.swing.chance_ln())
    }
}
