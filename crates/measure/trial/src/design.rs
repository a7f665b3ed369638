//! When a trial looks at its pairs, and with how much doubt each look may be wrong.
//!
//! # Why looking often does not claim too much
//!
//! The order of the two runs of a pair is a fair coin. If what is compared makes no difference, the sign of each pair's
//! difference is that coin, whatever the noise of the host is: drift, outliers, runs that depend on earlier ones. So the
//! signed-rank test of one look is exact by the randomization alone (R. A. Fisher, *The Design of Experiments*, 1935).
//!
//! A trial stops as soon as the answer is known, so it looks several times. The numbers of pairs at which it looks are
//! fixed before it begins, and the probability of a wrong claim is spent on them: after the look number `k` of `K` at
//! most `k/K` of it (K. K. G. Lan and D. L. DeMets, *Discrete sequential boundaries for clinical trials*, Biometrika 70,
//! 1983). The looks share it by Bonferroni's inequality and not by their joint distribution. This asks for a few more pairs,
//! and it holds without any assumption about the noise. The interval of every look is then one of a sequence that holds the
//! truth at all looks together: a *repeated confidence interval* (C. Jennison and B. W. Turnbull, *Interim analyses: the
//! repeated confidence interval approach*, Journal of the Royal Statistical Society B 51, 1989). So it may be printed
//! as it is, whenever the trial stops.
//!
//! When the time is over between two looks, one last look takes all that is left. It comes at a moment that the
//! signs of the pairs do not influence.

use crate::signed_rank::{Critical, MAX_PAIRS, critical};

/// Probability of a wrong claim in a trial, where nothing else is said. Among 100 trials of nothing against nothing, 2 claim a
/// difference then, and more than 5 do so once in 65 such hundreds.
pub const ERROR: f64 = 0.02;
/// Differences up to this share are called none, where nothing else is said.
pub const BOUND: f64 = 0.02;
/// Most pairs, where nothing else is said.
pub const USUAL_PAIRS: usize = 100;
/// The first look of a schedule, if there are that many pairs.
const FIRST_LOOK: usize = 8;
/// Each look has at least this many times the pairs of the look before.
const GROWTH: f64 = 1.33;

/// What a trial decides by.
#[derive(Clone, PartialEq, Debug)]
pub struct Design {
    looks: Vec<Look>,
    /// Probability that the interval misses the truth at any look.
    error: f64,
}

/// One look.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Look {
    pairs: usize,
    /// `None` if so few pairs cannot decide.
    critical: Option<Critical>,
    /// Spent on this look and on those before.
    spent: f64,
}

impl Design {
    /// A design for at most this number of pairs ([`fewest`] to [`MAX_PAIRS`]), whose intervals all hold the truth with a
    /// probability of `1 - error`.
    pub fn new(max_pairs: usize, error: f64) -> Design {
        let counts = schedule(max_pairs.clamp(fewest(error).min(MAX_PAIRS), MAX_PAIRS));
        let all = counts.len() as f64;
        let mut spent = 0.0;
        let looks = counts.into_iter().enumerate().map(|(index, pairs)| {
            let allowed = error * (index + 1) as f64 / all;
            let critical = critical(pairs, allowed - spent);
            spent += critical.map_or(0.0, |critical| critical.size);
            Look {
                pairs,
                critical,
                spent,
            }
        });
        Design {
            looks: looks.collect(),
            error,
        }
    }

    /// A design that looks once, after exactly this number of pairs ([`fewest`] to [`MAX_PAIRS`]): its interval is the
    /// narrowest that these pairs give.
    pub fn of_all_pairs(pairs: usize, error: f64) -> Design {
        let pairs = pairs.clamp(fewest(error).min(MAX_PAIRS), MAX_PAIRS);
        let critical = critical(pairs, error);
        let spent = critical.map_or(0.0, |critical| critical.size);
        let looks = vec![Look {
            pairs,
            critical,
            spent,
        }];
        Design { looks, error }
    }

    /// The most pairs.
    pub fn max_pairs(&self) -> usize {
        self.looks.last().map_or(0, |look| look.pairs)
    }

    /// Probability that the interval misses the truth at any look.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// What decides at a scheduled look with this number of pairs; `None` if there is none.
    pub fn scheduled(&self, pairs: usize) -> Option<Critical> {
        let look = self.looks.iter().find(|look| look.pairs == pairs)?;
        look.critical
    }

    /// What decides with this number of pairs when no more will come: all that the looks before have left.
    pub fn last(&self, pairs: usize) -> Option<Critical> {
        let before = self.looks.iter().rev().find(|look| look.pairs < pairs);
        let spent = before.map_or(0.0, |look| look.spent);
        critical(pairs.min(MAX_PAIRS), self.error - spent)
    }
}

/// The fewest pairs that can decide: all of them on one side by chance is no more probable than `error`.
pub fn fewest(error: f64) -> usize {
    (2.0 / error).log2().ceil().max(1.0) as usize
}

/// The numbers of pairs to look at.
fn schedule(max_pairs: usize) -> Vec<usize> {
    let next = |pairs: &usize| Some((*pairs as f64 * GROWTH).round() as usize);
    let looks = std::iter::successors(Some(FIRST_LOOK), next);
    let mut looks: Vec<usize> = looks.take_while(|pairs| *pairs < max_pairs).collect();
    looks.push(max_pairs);
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_grow_and_end_with_the_most_pairs() {
        assert_eq!(schedule(6), [6]);
        assert_eq!(schedule(12), [8, 11, 12]);
        assert_eq!(schedule(100), [8, 11, 15, 20, 27, 36, 48, 64, 85, 100]);
    }

    #[test]
    fn all_looks_together_spend_no_more_than_allowed() {
        for max_pairs in [1, 7, 12, 40, 100, MAX_PAIRS] {
            let design = Design::new(max_pairs, ERROR);
            for index in 0..design.looks.len() {
                let sizes = design.looks[..=index].iter();
                let sizes = sizes.filter_map(|look| look.critical);
                let sum: f64 = sizes.map(|critical| critical.size).sum();
                let allowed = ERROR * (index + 1) as f64 / design.looks.len() as f64;
                assert!(sum <= allowed + 1e-12, "{max_pairs}: {sum} of {allowed}");
            }
        }
    }

    #[test]
    fn a_last_look_takes_what_is_left_and_no_more() {
        let design = Design::new(100, ERROR);
        assert_eq!(fewest(0.05), 6);
        let fewest = fewest(ERROR);
        assert_eq!(design.last(fewest - 1), None);
        assert_eq!(design.last(fewest).map(|last| last.outside), Some(0));
        for pairs in fewest..100 {
            let before = design.looks.iter().filter(|look| look.pairs < pairs);
            let spent: f64 = before
                .filter_map(|look| look.critical)
                .map(|critical| critical.size)
                .sum();
            let last = design.last(pairs).expect("enough is left");
            assert!(spent + last.size <= ERROR + 1e-12, "{pairs}");
        }
    }
}
