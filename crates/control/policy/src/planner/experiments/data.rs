//! The result of moving data: if threads get less, the data goes back (ours).
//!
//! ```text
//!   still ── steps set off ──▶ open ── copied, a still window later: speed < 0.98 of before ──▶ back
//!     ▲                          │
//!     └──── as fast or faster ───┘
//! ```
//!
//! Predicted gains are only of reads. Other waits of threads, and other threads that wait there, only show afterwards.
//! A window is compared with an earlier window in which threads did the same. After such a loss no data is moved for
//! long, twice as long each time: an error in the prediction for one file also affects the next.

use super::super::decision::{Relocate, RelocationReason, RelocationStep};
use super::progress::{Kinds, Progress};
use super::undo::{MIN_SPEED, PATIENCE_WINDOWS};

/// No data moves for this number of a file's rests, twice as many each time.
const RETURN_RESTS: u32 = 16;
/// That number is doubled at most this often.
const MAX_DOUBLINGS: u32 = 10;

/// Steps that are not judged yet.
#[derive(Clone, Debug, Default)]
pub(in crate::planner) struct Outcomes {
    /// What threads got since data moved.
    recent: Kinds,
    open: Option<Open>,
    /// Windows in which no step starts.
    rest_windows: u32,
    /// How often steps went back.
    times: u32,
}

#[derive(Clone, Debug)]
struct Open {
    before: Kinds,
    steps: Vec<RelocationStep>,
    still_windows: u32,
    windows: u32,
}

impl Outcomes {
    /// Takes what threads got in a window. Returns the steps after which it is less, and how much.
    pub(in crate::planner) fn look(
        &mut self,
        progress: Progress,
        rest_windows: u32,
    ) -> Option<(f64, Vec<RelocationStep>)> {
        self.rest_windows = self.rest_windows.saturating_sub(1);
        let mut back = None;
        if let Some(mut open) = self.open.take() {
            if open.still_windows > 0 {
                open.windows += 1;
                let speed = open.before.meet(&progress);
                back = speed.filter(|speed| *speed < MIN_SPEED);
            }
            let is_awaited = !open.before.is_empty() && open.windows < PATIENCE_WINDOWS;
            match back {
                Some(speed) => {
                    self.recent = Kinds::default();
                    let rests = RETURN_RESTS << self.times.min(MAX_DOUBLINGS);
                    self.rest_windows = rest_windows.saturating_mul(rests);
                    self.times = self.times.saturating_add(1);
                    return Some((speed, open.steps));
                }
                None if is_awaited => self.open = Some(open),
                None => {}
            }
        }
        self.recent.remember(progress);
        None
    }

    /// Takes the decision: new steps, and whether nothing else changes. Returns whether they are the first that wait
    /// to be judged.
    pub(in crate::planner) fn note(&mut self, steps: &[RelocationStep], is_still: bool) -> bool {
        let is_judged = |step: &&RelocationStep| {
            let is_copy = !matches!(step.action, Relocate::Drop { .. });
            let is_for_gain = !matches!(
                step.why,
                RelocationReason::MakesRoom { .. } | RelocationReason::BroughtLess { .. }
            );
            is_copy && is_for_gain
        };
        let steps: Vec<RelocationStep> = steps.iter().filter(is_judged).cloned().collect();
        match &mut self.open {
            Some(open) => {
                let rests = is_still && steps.is_empty();
                open.still_windows = if rests { open.still_windows + 1 } else { 0 };
                open.steps.extend(steps);
                false
            }
            None if !steps.is_empty() && !self.recent.is_empty() => {
                self.open = Some(Open {
                    before: std::mem::take(&mut self.recent),
                    steps,
                    still_windows: 0,
                    windows: 0,
                });
                true
            }
            None => false,
        }
    }

    /// Whether steps went back not long ago.
    pub(in crate::planner) fn rests(&self) -> bool {
        self.rest_windows > 0
    }

    /// Whether steps wait to be judged by the next window, so that nothing else should change.
    pub(in crate::planner) fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.windows == 0)
    }
}
