//! What experiments may lose.

/// What may be lost at first, in windows.
const FIRST_WINDOWS: f64 = 2.0;
/// Part of the time that may be lost.
const MAX_LOSS: f64 = 0.02;
/// What may be lost at once, in windows. The rest of the first credit shrinks until then.
const SAVED_WINDOWS: f64 = 0.5;
const SHRINKS: f64 = 0.9;

/// What experiments may lose now, in windows: two windows at half speed lose one.
#[derive(Clone, Debug)]
pub(super) struct Credit(f64);

impl Default for Credit {
    fn default() -> Credit {
        Credit(FIRST_WINDOWS)
    }
}

impl Credit {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_experiment_loses_the_next_cannot_lose() {
        let mut credit = Credit::default();
        assert!(credit.covers(1.5));
        credit.lose(2.0);
        assert!(!credit.covers(0.0));
        credit.earn();
        assert!(credit.covers(0.0) && !credit.covers(MAX_LOSS));
        (0..1000).for_each(|_| credit.earn());
        assert!(credit.covers(SAVED_WINDOWS - 1e-9) && !credit.covers(SAVED_WINDOWS));
    }
}
