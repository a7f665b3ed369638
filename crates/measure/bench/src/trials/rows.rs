//! Real trials, and whether their answers are right.

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
        let truth = |change| Truth {
            change,
            pairs: None,
        };
        assert!(is_of_kind(Kind::Gain, &truth(-0.1)));
        assert!(is_of_kind(Kind::Loss, &truth(0.1)));
        assert!(is_of_kind(Kind::None, &truth(0.01)));
        assert!(!is_of_kind(Kind::Gain, &truth(0.1)));
    }
}
