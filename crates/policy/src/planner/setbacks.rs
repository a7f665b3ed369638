//! Stage 10: a thread that gained less than half of what its migration should have brought is not sent there again for a
//! while (ours). Each further miss doubles the time, up to sixteen times.

use std::collections::BTreeMap;

use egeria_facts::ThreadKey;
use egeria_machine::NodeId;

use super::settings::Feedback;
use crate::{ActionResult, Expectation, Kept, KeptBecause, Move};

/// The time doubles so often at most.
const MAX_DOUBLINGS: u32 = 4;

/// Migrations that brought too little, by thread and node.
#[derive(Clone, Debug, Default)]
pub(super) struct Setbacks {
    known: BTreeMap<(ThreadKey, NodeId), Setback>,
}

#[derive(Clone, Debug)]
struct Setback {
    expected: Expectation,
    measured: f64,
    /// Misses so far.
    count: u32,
    /// Windows for which it is not tried again.
    rest_windows: u32,
    /// Windows after which it is forgotten.
    memory_windows: u32,
}

impl Setbacks {
    /// A window has passed.
    pub(super) fn pass(&mut self) {
        self.known.retain(|_, setback| {
            setback.rest_windows = setback.rest_windows.saturating_sub(1);
            setback.memory_windows = setback.memory_windows.saturating_sub(1);
            setback.memory_windows > 0
        });
    }

    /// Remembers what was missed; what brought enough is forgotten.
    pub(super) fn learn(&mut self, results: &[ActionResult], settings: &Feedback) {
        for result in results {
            let Some(step) = result.action.as_thread_move() else {
                continue;
            };
            let key = (step.thread, step.to);
            let (Some(expected), Some(measured)) = (result.expected, result.measured) else {
                continue;
            };
            if !result.missed {
                self.known.remove(&key);
                continue;
            }
            let before = self.known.get(&key).map_or(0, |setback| setback.count);
            let doublings = before.min(MAX_DOUBLINGS);
            // The window that is decided next passes at once.
            let rest_windows = settings.rest_windows.saturating_mul(1 << doublings);
            let rest_windows = rest_windows.saturating_add(1);
            let setback = Setback {
                expected,
                measured,
                count: before.saturating_add(1),
                rest_windows,
                memory_windows: rest_windows.saturating_mul(2),
            };
            self.known.insert(key, setback);
        }
    }

    /// Why a thread is not sent there now, if it brought too little before.
    pub(super) fn refuses(&self, step: &Move) -> Option<Kept> {
        let setback = self.known.get(&(step.thread, step.to))?;
        (setback.rest_windows > 0).then_some(Kept {
            thread: step.thread,
            node: step.from,
            wanted: Some(step.to),
            because: KeptBecause::BroughtTooLittle {
                expected: setback.expected,
                measured: setback.measured,
                windows: setback.rest_windows,
            },
        })
    }
}
