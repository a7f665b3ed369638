//! Real trials, and whether their answers are right.

use egeria_stats::statistics::median;
use egeria_trial::answer::Answer;
use egeria_trial::design::BOUND;
use serde::Serialize;

use super::programs::Kind;

/// What a side really changes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Truth {
    /// Of the value, as a share.
    #[serde(rename = "truth")]
    pub change: f64,
    /// Pairs by which it was measured; `None`: it is known by construction.
    #[serde(rename = "truth_pairs")]
    pub pairs: Option<usize>,
    /// Ends of the interval of the median in which it lies with a probability of 0.95 or more.
    #[serde(rename = "truth_low")]
    pub low: f64,
    #[serde(rename = "truth_high")]
    pub high: f64,
}

impl Truth {
    /// A change that is known by construction.
    pub(super) fn known(change: f64) -> Truth {
        Truth {
            change,
            pairs: None,
            low: change,
            high: change,
        }
    }

    /// What logarithms of ratios say; `None` without any.
    pub(super) fn of(ratios: &[f64]) -> Option<Truth> {
        let change = median(ratios)?.exp_m1();
        let mut sorted = ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        // How many of n values are below their median is binomial, with a deviation of half the root of n.
        let count = sorted.len() as f64;
        let outside = ((count - 1.96 * count.sqrt()) / 2.0).floor().max(0.0) as usize;
        Some(Truth {
            change,
            pairs: Some(sorted.len()),
            low: sorted[outside].exp_m1(),
            high: sorted[sorted.len() - 1 - outside].exp_m1(),
        })
    }

    /// Whether it is known that the change is larger than the bound of a trial, or that it is not.
    pub(super) fn is_sharp(&self) -> bool {
        self.low > BOUND || self.high < -BOUND || (self.low >= -BOUND && self.high <= BOUND)
    }
}

/// One real trial.
#[derive(Clone, Debug, Serialize)]
pub struct TrialRow {
    pub program: &'static str,
    pub kind: Kind,
    #[serde(flatten)]
    pub truth: Truth,
    pub answer: Answer,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub pairs: usize,
    pub minutes: f64,
    /// CPU time of the trial's own process per CPU time of the program, in runs that nothing accompanies.
    pub overhead: Option<f64>,
    /// The profile of the machine if it is emulated.
    pub emulated: Option<&'static str>,
    /// The answer is that of the truth; within the bound of a trial, only a claim of a gain or a loss is wrong.
    pub right: bool,
}

/// Whether the answer is that of a gain as large as this; losses are below 0. Within the bound of a trial no claim of a gain or a
/// loss is right.
pub(super) fn is_right(gain: f64, answer: Answer) -> bool {
    match answer {
        Answer::Better => gain > BOUND,
        Answer::Worse => gain < -BOUND,
        Answer::NoDifference | Answer::NotKnown => gain.abs() <= BOUND,
    }
}

/// Whether a program turned out to be of the kind that it was chosen for.
pub(super) fn is_of_kind(kind: Kind, truth: &Truth) -> bool {
    // All of them measure time.
    match kind {
        Kind::Gain => truth.change < -BOUND,
        Kind::None => truth.change.abs() <= BOUND,
        Kind::Loss => truth.change > BOUND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_right_by_the_truth() {
        assert!(is_right(0.1, Answer::Better));
        assert!(!is_right(0.1, Answer::NotKnown));
        assert!(!is_right(-0.1, Answer::Better));
        assert!(is_right(-0.1, Answer::Worse));
        assert!(is_right(0.0, Answer::NoDifference));
        assert!(is_right(0.01, Answer::NotKnown));
        assert!(!is_right(0.01, Answer::Better));
    }

    #[test]
    fn kinds_are_those_of_times() {
        let truth = Truth::known;
        assert!(is_of_kind(Kind::Gain, &truth(-0.1)));
        assert!(is_of_kind(Kind::Loss, &truth(0.1)));
        assert!(is_of_kind(Kind::None, &truth(0.01)));
        assert!(!is_of_kind(Kind::Gain, &truth(0.1)));
    }

    #[test]
    fn a_truth_is_sharp_away_from_the_bound() {
        let spread = |middle: f64, width: f64| {
            let ratios: Vec<f64> = (0..24)
                .map(|at| middle + width * (at as f64 / 23.0 - 0.5))
                .collect();
            Truth::of(&ratios).unwrap()
        };
        assert!(spread(0.0, 0.04).is_sharp());
        assert!(!spread(0.0, 0.2).is_sharp());
        assert!(spread(-0.1, 0.2).is_sharp());
        assert!(!spread(0.02, 0.04).is_sharp());
        assert!(Truth::known(0.0).is_sharp());
        assert!(Truth::of(&[]).is_none());
    }

    #[test]
    fn the_interval_of_a_truth_holds_the_median() {
        // Twenty-four values: 2.5 % of medians lie below the eighth of them.
        let ratios: Vec<f64> = (0..24).map(f64::from).map(|at| at / 1000.0).collect();
        let truth = Truth::of(&ratios).unwrap();
        assert!((truth.low - 0.007f64.exp_m1()).abs() < 1e-12, "{truth:?}");
        assert!((truth.high - 0.016f64.exp_m1()).abs() < 1e-12, "{truth:?}");
    }
}
