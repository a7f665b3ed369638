//! How each claim is answered, and how an answer is judged.
//!
//! | a claim is | when | judged |
//! | --- | --- | --- |
//! | `predicted` | the model gives its number | model / paper; the error is its distance from 1 |
//! | `ordering` | it says that one is faster than another, or similar | holds when the least ratio is above 1; similar: when all are within 10 % |
//! | `bound` | it gives only a bound ("more than 90 %") | holds or not; no error |
//! | `setting` | it is a constant or worked value of a system | the policy's own value must equal it; no error |
//! | `input` | the model or the machine is calibrated on it | not judged |
//! | `unanswered` | neither | the reason is given |
//!
//! "Up to" and "about" are taken as the number they give: the largest of the model's cases, or its value. A
//! prediction that compares two systems counts as an ordering too: the model must put the same one first.

use crate::claim::Claim;
use crate::results::Results;

/// How a value in a table is to be read, and what the model gives for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reading {
    /// A change in per cent: +40.5 is 1.405 times, -34.6 is 0.654 times.
    Change,
    /// A loss in per cent: 90 leaves 0.1.
    Loss,
    /// A share in per cent: 77.6 is 0.776.
    Share,
    /// The number as it is.
    Plain,
}

impl Reading {
    /// The number of the claim at this place, as a ratio or as it is.
    pub fn of(self, claim: &Claim, part: usize) -> Option<f64> {
        let number = *claim.numbers().get(part)?;
        Some(match self {
            Reading::Change => 1.0 + number / 100.0,
            Reading::Loss => 1.0 - number / 100.0,
            Reading::Share => number / 100.0,
            Reading::Plain => number,
        })
    }
}

/// What the model says: `None` when the experiment was not run.
pub(crate) type Said = fn(&Results) -> Option<f64>;

/// How a claim, or a part of one, is answered.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// The model gives its number.
    Predicted(Prediction),
    /// The model puts one before the other: `said` is the least of the ratios, above 1 when it does.
    Faster {
        /// The least ratio.
        said: Said,
    },
    /// The model finds them alike: `said` is the ratio farthest from 1.
    Similar {
        /// The ratio farthest from 1.
        said: Said,
    },
    /// The model keeps a bound.
    Bound {
        /// How the bound is read.
        reading: Reading,
        /// Which number of the claim.
        part: usize,
        /// Whether the model's must be at most, not at least, the bound.
        at_most: bool,
        /// What the model gives.
        said: Said,
    },
    /// The policy's own value.
    Setting {
        /// How the claim's is read.
        reading: Reading,
        /// What the policy has.
        value: fn() -> f64,
    },
    /// The model is calibrated on it: where it went.
    Input(&'static str),
    /// The model cannot say: why.
    Unanswered(&'static str),
}

impl Answer {
    /// The answer for another number of the claim, or for a part of it with this label.
    pub(crate) const fn at(self, part: usize, label: &'static str) -> Answer {
        match self {
            Answer::Predicted(prediction) => Answer::Predicted(Prediction {
                part,
                label,
                ..prediction
            }),
            other => other,
        }
    }

    /// The answer, as a comparison of two file systems.
    pub(crate) const fn across(self) -> Answer {
        match self {
            Answer::Predicted(prediction) => Answer::Predicted(Prediction {
                across: true,
                ..prediction
            }),
            other => other,
        }
    }
}

/// A number that the model gives.
#[derive(Clone, Copy, Debug)]
pub struct Prediction {
    /// How the claim's is read.
    pub reading: Reading,
    /// Which number of the claim.
    pub part: usize,
    /// Which part of the claim, when it has several; else empty.
    pub label: &'static str,
    /// Whether it compares two systems or placements, so that it says which is faster.
    pub compares: bool,
    /// The two are on different file systems: what software takes differs, too.
    pub across: bool,
    /// What the model gives.
    pub said: Said,
}

/// A claim's id with its answers: mostly one.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// The claim.
    pub id: &'static str,
    /// What becomes of it.
    pub answers: &'static [Answer],
}

/// How far apart "similar" values may be (the papers do not say; their bars can be distinguished from 5 to 10 %).
pub const SIMILAR: f64 = 0.10;

/// A change between two systems, in per cent.
pub(crate) const fn change(said: Said) -> Answer {
    Answer::Predicted(Prediction {
        reading: Reading::Change,
        part: 0,
        label: "",
        compares: true,
        across: false,
        said,
    })
}

/// Times as fast as another system.
pub(crate) const fn times(said: Said) -> Answer {
    Answer::Predicted(Prediction {
        reading: Reading::Plain,
        part: 0,
        label: "",
        compares: true,
        across: false,
        said,
    })
}

/// A number that compares nothing.
pub(crate) const fn number(reading: Reading, said: Said) -> Answer {
    Answer::Predicted(Prediction {
        reading,
        part: 0,
        label: "",
        compares: false,
        across: false,
        said,
    })
}

/// A share in per cent, or a loss, that says which of two is faster.
pub(crate) const fn compared(reading: Reading, said: Said) -> Answer {
    Answer::Predicted(Prediction {
        reading,
        part: 0,
        label: "",
        compares: true,
        across: false,
        said,
    })
}

/// The least of some ratios.
pub(crate) fn least<const COUNT: usize>(ratios: [Option<f64>; COUNT]) -> Option<f64> {
    all(ratios)?.into_iter().reduce(f64::min)
}

/// The largest of some ratios.
pub(crate) fn most<const COUNT: usize>(ratios: [Option<f64>; COUNT]) -> Option<f64> {
    all(ratios)?.into_iter().reduce(f64::max)
}

/// The ratio farthest from 1.
pub(crate) fn farthest<const COUNT: usize>(ratios: [Option<f64>; COUNT]) -> Option<f64> {
    let distance = |ratio: f64| ratio.max(f64::MIN_POSITIVE).ln().abs();
    all(ratios)?.into_iter().reduce(|one, other| {
        if distance(other) > distance(one) {
            other
        } else {
            one
        }
    })
}

fn all<const COUNT: usize>(ratios: [Option<f64>; COUNT]) -> Option<Vec<f64>> {
    ratios.into_iter().collect()
}
