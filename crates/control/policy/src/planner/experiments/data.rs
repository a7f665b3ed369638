//! The result of moving data: if threads get less, the data goes back (ours).
//!
//! Predicted gains are only of reads. Other waits of threads, and other threads that wait there, only show afterwards.
//! After such a loss no data is moved for long, twice as long each time: an error in the prediction for one file also
//! affects the next.

use super::super::decision::{Relocate, RelocationReason, RelocationStep};
use super::experiment::{Experiment, Judged};
use super::progress::{Kinds, Progress};
use super::undo::MIN_SPEED;
use crate::rest::Rest;
use crate::swing::Swing;

/// No data moves for this number of a file's rests, twice as many each time.
const RESTS: u32 = 16;
/// At most this number of times as long.
const MAX_FACTOR: u32 = 1 << 10;

/// Steps that are not judged yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    /// What threads got since data moved.
    recent: Kinds,
    swing: Swing,
    open: Option<Experiment<Vec<RelocationStep>>>,
    /// No step starts.
    rest: Rest,
}

impl Data {
    /// Takes what threads got in a window. Returns the steps after which it is less, and how much.
    pub(super) fn look(
        &mut self,
        progress: &Progress,
        rest_windows: u32,
    ) -> Option<(f64, Vec<RelocationStep>)> {
        self.rest.pass();
        if let Some(mut open) = self.open.take() {
            match open.judge_loss(progress, &self.swing, MIN_SPEED) {
                Some(Judged::Loss(speed)) => {
                    self.recent = Kinds::default();
                    let first = rest_windows.saturating_mul(RESTS);
                    self.rest.begin(first, first.saturating_mul(MAX_FACTOR));
                    return Some((speed, open.change));
                }
                _ if open.is_over() => {}
                _ => self.open = Some(open),
            }
        }
        let change = self.recent.remember(progress.clone());
        // A window right after a change differs from the one before for that reason.
        if self.open.as_ref().is_none_or(|open| open.is_still()) {
            self.swing.note(change);
        }
        None
    }

    /// Takes the decision: new steps, and whether nothing else changes. Returns whether they are the first that wait
    /// to be judged.
    pub(super) fn note(&mut self, steps: &[RelocationStep], is_still: bool) -> bool {
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
                open.note(!steps.is_empty(), is_still, u32::MAX);
                open.change.extend(steps);
                false
            }
            None if !steps.is_empty() && !self.recent.is_empty() => {
                let before = std::mem::take(&mut self.recent);
                self.open = Some(Experiment::new(steps, before));
                true
            }
            None => false,
        }
    }

    /// Whether steps went back not long ago.
    pub(super) fn rests(&self) -> bool {
        !self.rest.is_over()
    }

    /// Whether steps wait to be judged by the next window, so that nothing else should change.
    pub(super) fn is_open(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.windows() == 0)
    }
}
