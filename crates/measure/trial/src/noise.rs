//! What the runs themselves say of the host: how far they differ, and whether they drift.

use egeria_stats::statistics::median;
use serde::Serialize;

/// A drift is said from this many standard deviations of Kendall's statistic on.
const DRIFT_DEVIATIONS: f64 = 3.0;
/// With fewer runs no drift is looked for.
const MIN_RUNS: usize = 8;
/// Makes the median distance from the median a standard deviation, for normal noise.
const NORMAL: f64 = 1.4826;

/// One run: which side, and the logarithm of its value.
pub type Run = (usize, f64);

/// How runs of the same side vary.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Noise {
    /// How far runs of the same side differ by themselves, as a share: a robust standard deviation, without the drift.
    pub spread: Option<f64>,
    /// How much values changed from the first run to the last, as a share, if they did so steadily.
    pub drift: Option<f64>,
}

/// Of runs in the order of time.
pub fn noise(runs: &[Run]) -> Noise {
    let values = without_sides(runs);
    let slope = slope(&values);
    let drift = slope.filter(|_| is_steady(&values));
    let straight: Vec<f64> = match drift {
        Some(slope) => {
            let places = values.iter().enumerate();
            places
                .map(|(at, value)| value - slope * at as f64)
                .collect()
        }
        None => values.clone(),
    };
    let last = values.len().saturating_sub(1) as f64;
    Noise {
        spread: spread(&straight).map(f64::exp_m1),
        drift: drift.map(|slope| (slope * last).exp_m1()),
    }
}

/// The values less the median of their side, so that all sides are comparable.
fn without_sides(runs: &[Run]) -> Vec<f64> {
    let sides = runs.iter().map(|(side, _)| side + 1).max().unwrap_or(0);
    let of_side = |side: usize| -> Vec<f64> {
        let own = runs.iter().filter(|run| run.0 == side);
        own.map(|(_, value)| *value).collect()
    };
    let medians: Vec<f64> = (0..sides)
        .map(|side| median(&of_side(side)).unwrap_or(0.0))
        .collect();
    let less = |(side, value): &Run| value - medians[*side];
    runs.iter().map(less).collect()
}

fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values).filter(|_| values.len() > 1)?;
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    median(&distances).map(|distance| distance * NORMAL)
}

/// All pairs of places, the earlier first.
fn pairs(values: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    (0..values.len()).flat_map(move |early| {
        let later = early + 1..values.len();
        later.map(move |late| ((late - early) as f64, values[late] - values[early]))
    })
}

/// The median slope between two runs, per run (Theil 1950, Sen 1968).
fn slope(values: &[f64]) -> Option<f64> {
    let slopes: Vec<f64> = pairs(values)
        .map(|(apart, change)| change / apart)
        .collect();
    median(&slopes)
}

/// Whether later runs are more often higher, or more often lower, than chance explains (Mann 1945, Kendall).
fn is_steady(values: &[f64]) -> bool {
    if values.len() < MIN_RUNS {
        return false;
    }
    let sign = |(_, change): (f64, f64)| match change {
        change if change > 0.0 => 1.0,
        change if change < 0.0 => -1.0,
        _ => 0.0,
    };
    let sum: f64 = pairs(values).map(sign).sum();
    let count = values.len() as f64;
    let deviation = (count * (count - 1.0) * (2.0 * count + 5.0) / 18.0).sqrt();
    sum.abs() > DRIFT_DEVIATIONS * deviation
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_stats::rng::Rng;

    fn runs(count: usize, value: impl Fn(usize, f64) -> f64) -> Vec<Run> {
        let mut rng = Rng::new(3);
        let each = (0..count).map(|at| (at % 2, value(at, rng.unit() - 0.5)));
        each.collect()
    }

    #[test]
    fn drift_is_seen_apart_from_noise_and_sides() {
        let quiet = noise(&runs(40, |at, noise| 0.02 * noise + 0.5 * (at % 2) as f64));
        assert_eq!(quiet.drift, None);
        assert!(quiet.spread.unwrap() < 0.02, "{quiet:?}");
        let drifting = noise(&runs(40, |at, noise| 0.02 * noise + 0.01 * at as f64));
        let drift = drifting.drift.unwrap();
        assert!((drift - 0.39f64.exp_m1()).abs() < 0.03, "{drifting:?}");
        assert!(drifting.spread.unwrap() < 0.02, "{drifting:?}");
    }

    #[test]
    fn few_runs_say_nothing() {
        assert_eq!(
            noise(&[]),
            Noise {
                spread: None,
                drift: None
            }
        );
        let rising = runs(MIN_RUNS - 1, |at, _| at as f64);
        assert_eq!(noise(&rising).drift, None);
    }
}
