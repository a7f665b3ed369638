//! Axes that begin at 0.

/// An axis from 0.
pub(super) struct Axis {
    to: f64,
    step: f64,
}

impl Axis {
    /// From 0, in whole steps where it can be.
    pub(super) fn of_counts(most: f64) -> Axis {
        Axis::linear(most, &WHOLE)
    }

    /// From 0, in fine steps.
    pub(super) fn of_values(most: f64) -> Axis {
        Axis::linear(most, &FINE)
    }

    fn linear(most: f64, times: &[f64]) -> Axis {
        let most = if most.is_finite() && most > 0.0 {
            most
        } else {
            1.0
        };
        let step = step(most, times);
        Axis {
            to: (most / step - 1e-9).ceil() * step,
            step,
        }
    }

    /// Where on the axis a value stands, 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = value / self.to;
        if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        let count = (self.to / self.step).round() as usize;
        (0..=count).map(|index| index as f64 * self.step).collect()
    }
}

/// Steps of an axis, times a power of ten.
const FINE: [f64; 5] = [1.0, 2.0, 2.5, 5.0, 10.0];
/// Steps of an axis of whole numbers, times a power of ten.
const WHOLE: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// The least step of which at most eight make the axis.
fn step(most: f64, times: &[f64]) -> f64 {
    let power = 10f64.powf((most / 4.0).log10().floor());
    let fits = |times: &&f64| most / (power * **times) <= 8.0;
    power * times.iter().find(fits).unwrap_or(&10.0)
}

/// A number in few letters.
pub fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 10_000.0 => format!("{value:.0}"),
        _ if size >= 100.0 || (value.fract() == 0.0 && size >= 1.0) => format!("{value:.0}"),
        _ if size >= 10.0 => trimmed(format!("{value:.1}")),
        _ if size >= 0.01 || size == 0.0 => trimmed(format!("{value:.2}")),
        _ => format!("{value:.0e}"),
    }
}

fn trimmed(text: String) -> String {
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_hold_their_largest_value_in_round_steps() {
        for most in [0.3, 1.0, 1.4, 2.52, 9.9, 10.0, 60.0, 123.4, 1e9, 7.3e10] {
            let axis = Axis::linear(most, &FINE);
            let ticks = axis.ticks();
            assert!(
                axis.to >= most * (1.0 - 1e-9) && axis.to <= most * 1.6,
                "{most}"
            );
            assert!((3..=10).contains(&ticks.len()), "{most}: {ticks:?}");
            assert!((axis.place(axis.to) - 1.0).abs() < 1e-12);
        }
    }
}
