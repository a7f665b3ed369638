//! Wilcoxon's signed-rank statistic: its exact distribution, and the interval of shifts that it does not refuse.

use egeria_stats::statistics::median;

/// Most pairs of a trial. The tables of the distribution grow with the cube of it.
pub const MAX_PAIRS: usize = 500;

/// Where the interval of the shift ends, and how probable it is that the interval misses the shift.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Critical {
    /// That many of the smallest means of two pairs lie outside the interval, and that many of the largest.
    pub outside: usize,
    /// Probability that the interval misses the shift, on either side.
    pub size: f64,
}

/// The narrowest interval for `pairs` that misses the shift with a probability of `size` at most.
///
/// `None` if even all pairs on one side would be more likely by chance.
pub fn critical(pairs: usize, size: f64) -> Option<Critical> {
    let mut below = 0.0;
    let mut found = None;
    for (sum, probability) in sums(pairs).into_iter().enumerate() {
        below += probability;
        if 2.0 * below > size {
            break;
        }
        found = Some(Critical {
            outside: sum,
            size: 2.0 * below,
        });
    }
    found
}

/// The probability of each sum of the ranks of positive pairs, if each sign is a fair coin. Only the lower half is
/// complete, which is all that [`critical`] needs.
fn sums(pairs: usize) -> Vec<f64> {
    let most = pairs * (pairs + 1) / 2;
    let half = most / 2;
    let mut probabilities = vec![0.0; half + 1];
    probabilities[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..=half).rev() {
            let with = sum
                .checked_sub(rank)
                .map_or(0.0, |less| probabilities[less]);
            probabilities[sum] = (probabilities[sum] + with) / 2.0;
        }
    }
    probabilities
}

/// A shift, and the interval around it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shift {
    pub middle: f64,
    pub low: f64,
    pub high: f64,
}

/// The shift of these differences by Hodges and Lehmann: the median of all means of two of them, each with itself, too.
/// The interval holds what the signed-rank test does not refuse.
pub fn shift(differences: &[f64], critical: Critical) -> Option<Shift> {
    let means = sorted_means(differences);
    let low = *means.get(critical.outside)?;
    let high = *means.get(means.len().checked_sub(critical.outside + 1)?)?;
    let middle = median(&means)?;
    Some(Shift { middle, low, high })
}

/// The shift alone; `None` of no differences.
pub fn middle(differences: &[f64]) -> Option<f64> {
    median(&sorted_means(differences))
}

/// All means of two differences, each with itself, too (Walsh), ascending.
fn sorted_means(differences: &[f64]) -> Vec<f64> {
    let each = differences.iter().enumerate();
    let mut means: Vec<f64> = each
        .flat_map(|(at, first)| {
            let with = differences[at..].iter();
            with.map(move |second| (first + second) / 2.0)
        })
        .collect();
    means.sort_by(f64::total_cmp);
    means
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_printed_tables() {
        // Two-sided, from the tables of Wilcoxon and Wilcox (1964): the largest sum that refuses, and its probability.
        for (pairs, asked, sum, size) in [
            (6, 0.05, 0, 0.03125),
            (8, 0.05, 3, 0.0390625),
            (10, 0.05, 8, 0.048828125),
            (10, 0.01, 3, 0.009765625),
            (20, 0.05, 52, 0.0484),
        ] {
            let found = critical(pairs, asked).unwrap();
            assert_eq!(found.outside, sum, "{pairs} pairs, {asked}");
            assert!((found.size - size).abs() < 5e-5, "{pairs}: {found:?}");
        }
        assert_eq!(critical(5, 0.05), None);
        assert_eq!(critical(0, 0.05), None);
        assert!(critical(MAX_PAIRS, 0.001).unwrap().outside > 40_000);
    }

    #[test]
    fn the_interval_moves_with_the_differences() {
        let differences = [0.3, -0.1, 0.2, 0.25, 0.15, 0.05, 0.22, 9.0];
        let critical = critical(8, 0.05).unwrap();
        let found = shift(&differences, critical).unwrap();
        assert!(found.low <= found.middle && found.middle <= found.high && found.high < 5.0);
        let moved: Vec<f64> = differences.iter().map(|each| each + 1.0).collect();
        let moved = shift(&moved, critical).unwrap();
        assert!((moved.low - found.low - 1.0).abs() < 1e-12);
        assert!((moved.high - found.high - 1.0).abs() < 1e-12);
        let turned: Vec<f64> = differences.iter().map(|each| -each).collect();
        let turned = shift(&turned, critical).unwrap();
        assert!((turned.low + found.high).abs() < 1e-12);
    }

    #[test]
    fn the_interval_excludes_none_exactly_when_the_test_refuses() {
        // All on one side: refused at 2/2^6, and not with one of them on the other.
        let critical = critical(6, 0.032).unwrap();
        let mut differences = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
        assert!(shift(&differences, critical).unwrap().low > 0.0);
        differences[0] = -0.1;
        assert!(shift(&differences, critical).unwrap().low <= 0.0);
    }
}
