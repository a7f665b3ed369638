//! What the speed of programs differs by chance.

/// How much the speed differs from window to window while nothing is changed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Swing {
    /// Mean logarithm of the ratios lately, without their sign.
    ln: f64,
    /// Ratios that it was learned from.
    windows: u32,
    /// The last of them, as logarithms without their sign, in turns.
    last_ln: [f64; Swing::LAST_WINDOWS],
}

impl Swing {
    /// The number of ratios in `last_ln`.
    const LAST_WINDOWS: usize = 8;
    /// The part of the mean that a window is.
    const NEW: f64 = 0.25;
    /// A loss this number of times as great is hardly by chance.
    const TIMES: f64 = 2.0;
    /// It is known once this number of windows was compared.
    const FEW_WINDOWS: u32 = 3;

    /// Takes the speed of a window, compared with the one before like it.
    pub(crate) fn note(&mut self, speed: Option<f64>) {
        if let Some(speed) = speed {
            self.last_ln[self.windows as usize % Swing::LAST_WINDOWS] = speed.ln().abs();
            self.windows = self.windows.saturating_add(1);
            // The first ones count alike.
            let part = Swing::NEW.max(1.0 / f64::from(self.windows));
            self.ln += (speed.ln().abs() - self.ln) * part;
        }
    }

    /// Whether enough windows were compared.
    pub(crate) fn is_known(self) -> bool {
        self.windows >= Swing::FEW_WINDOWS
    }

    /// Whether a speed after a change is a loss: by more than `min_speed` says, and more than windows differ anyway.
    pub(crate) fn is_loss(self, speed: f64, min_speed: f64) -> bool {
        speed < min_speed && speed.ln() < -Swing::TIMES * self.ln
    }

    /// Whether a speed after a change is a gain: the same, upwards.
    pub(crate) fn is_gain(self, speed: f64, min_speed: f64) -> bool {
        self.is_loss(1.0 / speed, 1.0 / min_speed)
    }

    /// Whether two windows that differ by chance hardly differ by this factor: then one window shows that work is of
    /// another kind. Half of the last windows have to say so, because a change of work is no chance.
    pub(crate) fn is_below(self, factor: f64) -> bool {
        self.is_known() && self.chance_ln() < factor.ln()
    }

    /// By which logarithm windows may differ by chance; 0 where that is not known.
    pub(crate) fn chance_ln(self) -> f64 {
        if !self.is_known() {
            return 0.0;
        }
        let count = Swing::LAST_WINDOWS.min(self.windows as usize);
        let mut last_ln = self.last_ln;
        let last_ln = &mut last_ln[..count];
        last_ln.sort_by(f64::total_cmp);
        Swing::TIMES * last_ln[count / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_within_what_windows_differ_is_none() {
        let mut swing = Swing::default();
        assert!(swing.is_loss(0.97, 0.98) && !swing.is_loss(0.99, 0.98));
        for speed in [1.1, 1.0 / 1.1].repeat(8) {
            swing.note(Some(speed));
        }
        assert!(!swing.is_loss(0.9, 0.98), "as between windows before");
        assert!(swing.is_loss(0.7, 0.98), "far more than before");
        for _ in 0..40 {
            swing.note(Some(1.0));
        }
        assert!(swing.is_loss(0.97, 0.98), "it became steady");
    }

    #[test]
    fn a_change_of_work_is_no_swing_and_noise_is() {
        let mut steady = Swing::default();
        assert!(!steady.is_below(1.3), "not known yet");
        for speed in [1.05, 0.95, 1.02, 2.0, 1.01] {
            steady.note(Some(speed));
        }
        assert!(steady.is_below(1.3));
        assert!(steady.is_gain(3.0, 1.02) && !steady.is_gain(1.01, 1.02));
        let mut noisy = Swing::default();
        for speed in [0.7, 1.5, 0.8, 1.3, 1.0, 0.7] {
            noisy.note(Some(speed));
        }
        assert!(!noisy.is_below(1.3) && !noisy.is_gain(1.3, 1.02));
    }
}
