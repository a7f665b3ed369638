//! One change that waits to be judged: by what threads get in windows like those before it.

use super::progress::{Kinds, Progress};

/// How long to wait for a window like those before, in windows.
const PATIENCE_WINDOWS: u32 = 24;

/// A change, and what threads got before it.
#[derive(Clone, Debug)]
pub(super) struct Experiment<T> {
    /// What was changed.
    pub(super) change: T,
    /// One window of each kind of work that has not occurred since.
    before: Kinds,
    /// Windows since the last change, without the first, in which the change works only in part.
    still_windows: u32,
    unrest_windows: u32,
    /// Windows that were compared.
    windows: u32,
}

impl<T> Experiment<T> {
    pub(super) fn new(change: T, before: Kinds) -> Experiment<T> {
        Experiment {
            change,
            before,
            still_windows: 0,
            unrest_windows: 0,
            windows: 0,
        }
    }

    /// What threads get in this window, compared with before; `None` if it cannot be compared.
    pub(super) fn judge(&mut self, progress: &Progress) -> Option<f64> {
        if self.still_windows == 0 {
            return None;
        }
        self.windows += 1;
        self.before.meet(progress)
    }

    /// Takes a decision: whether it changes more of this, and whether all else is still. Data that goes on moving is
    /// waited for, at most for this number of windows.
    pub(super) fn note(&mut self, changes: bool, is_still: bool, max_unrest_windows: u32) {
        if changes {
            self.unrest_windows = 0;
        } else if !is_still {
            self.unrest_windows = self.unrest_windows.saturating_add(1);
        }
        let waits = !is_still && self.unrest_windows <= max_unrest_windows;
        self.still_windows = if changes || waits {
            0
        } else {
            self.still_windows + 1
        };
    }

    /// Whether nothing is left to compare with, or it did not come for long.
    pub(super) fn is_over(&self) -> bool {
        self.before.is_empty() || self.windows > PATIENCE_WINDOWS
    }

    /// How many windows were compared.
    pub(super) fn windows(&self) -> u32 {
        self.windows
    }
}
