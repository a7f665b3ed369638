//! What experiments may lose.

/// Part of the time that may be lost.
const MAX_LOSS: f64 = 0.02;
/// What may be lost at once, in windows. The rest of the first credit shrinks until then.
const SAVED_WINDOWS: f64 = 0.5;
const SHRINKS: f64 = 0.9;

/// What experiments may lose now, in windows: two windows at half speed lose one.
#[derive(Clone, Debug)]
pub(super) struct Credit(f64);

impl Credit {
    /// A credit to begin with.
    pub(super) fn new(windows: f64) -> Credit {
        Credit(windows)
    }

    /// A window has passed. The credit grows by a part of it up to a maximum; what is above that shrinks.
    pub(super) fn earn(&mut self) {
        self.0 = if self.0 > SAVED_WINDOWS {
            (self.0 * SHRINKS).max(SAVED_WINDOWS)
        } else {
            (self.0 + MAX_LOSS).min(SAVED_WINDOWS)
        };
    }

    /// Whether more than this may be lost.
    pub(super) fn covers(&self, loss: f64) -> bool {
        self.0 > loss
    }

    /// This was lost; below 0, it is given back.
    pub(super) fn lose(&mut self, loss: f64) {
        self.0 -= loss;
    }
}
