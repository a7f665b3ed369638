//! What a trial answers about one side compared with the first.

use serde::{Deserialize, Serialize};

use crate::design::Design;
use crate::signed_rank::{self, Critical};

/// Which values are better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Higher,
    Lower,
}

/// What is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Better,
    Worse,
    /// No difference larger than the bound.
    NoDifference,
    NotKnown,
}

/// A side compared with the first, by what is known after a number of pairs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Finding {
    pub answer: Answer,
    /// Change of the value, as a share: 0.05 is 5 % more than with the first side. `None` without pairs.
    pub change: Option<f64>,
    /// The interval that holds the true change at all looks together; `None` with too few pairs.
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub pairs: usize,
}

/// How pairs are judged.
#[derive(Clone, Debug)]
pub struct Judge {
    pub design: Design,
    pub better: Better,
    /// Differences up to this share are called none.
    pub bound: f64,
}

impl Judge {
    /// What the pairs say, if this is a moment to look and they decide it. `ratios` are logarithms of the value of the
    /// side, divided by the value of the first side in the same pair.
    pub fn look(&self, ratios: &[f64]) -> Option<Finding> {
        let critical = self.design.scheduled(ratios.len())?;
        let found = self.judge(ratios, Some(critical));
        (found.answer != Answer::NotKnown).then_some(found)
    }

    /// What the pairs say when no more will come.
    pub fn last(&self, ratios: &[f64]) -> Finding {
        self.judge(ratios, self.design.last(ratios.len()))
    }

    fn judge(&self, ratios: &[f64], critical: Option<Critical>) -> Finding {
        let shift = critical.and_then(|critical| signed_rank::shift(ratios, critical));
        let share = |logarithm: f64| logarithm.exp_m1();
        let middle = signed_rank::middle(ratios).map(share);
        let Some(shift) = shift else {
            return Finding {
                answer: Answer::NotKnown,
                change: middle,
                low: None,
                high: None,
                pairs: ratios.len(),
            };
        };
        let (low, high) = (share(shift.low), share(shift.high));
        Finding {
            answer: self.answer(low, high),
            change: middle,
            low: Some(low),
            high: Some(high),
            pairs: ratios.len(),
        }
    }

    /// A difference that is proven and certainly within the bound is none that matters.
    fn answer(&self, low: f64, high: f64) -> Answer {
        if low > -self.bound && high < self.bound {
            return Answer::NoDifference;
        }
        let is_higher = match (low > 0.0, high < 0.0) {
            (true, _) => true,
            (_, true) => false,
            _ => return Answer::NotKnown,
        };
        if is_higher == (self.better == Better::Higher) {
            Answer::Better
        } else {
            Answer::Worse
        }
    }
}
