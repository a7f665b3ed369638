//! The loop of a trial: rounds of runs, until every answer is known or no more may run.

use std::time::Duration;

use serde::Serialize;

use crate::answer::{Finding, Judge};
use crate::noise::Run;
use crate::order::Orders;

/// What is measured.
pub trait Subject {
    type Error;

    /// The value of one run with this side; a positive number.
    ///
    /// # Errors
    /// When it gives none, which ends the trial.
    fn run(&mut self, side: usize) -> Result<f64, Self::Error>;

    /// Time since the trial began.
    fn elapsed(&self) -> Duration;
}

/// How a trial goes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many sides, the first of which the others are compared with.
    pub sides: usize,
    /// Judges each of the others.
    pub judge: Judge,
    /// No round begins that would probably end later.
    pub at_most: Duration,
    pub seed: u64,
}

/// Why no more ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Every answer is known.
    Known,
    /// There were as many pairs as asked for.
    Pairs,
    /// The time was over.
    Time,
}

/// What came of a trial.
#[derive(Clone, Debug)]
pub struct Tried {
    /// For each side but the first.
    pub findings: Vec<Finding>,
    /// Values by round and side.
    pub rounds: Vec<Vec<f64>>,
    /// All runs in the order of time.
    pub runs: Vec<Run>,
    pub ended: Ended,
}

/// Runs rounds until every answer is known, the pairs are enough or the time is over.
///
/// # Errors
/// That of the first run that fails.
pub fn run<S: Subject>(plan: &Plan, subject: &mut S) -> Result<Tried, S::Error> {
    let mut orders = Orders::new(plan.seed, plan.sides);
    let mut known: Vec<Option<Finding>> = vec![None; plan.sides.saturating_sub(1)];
    let (mut rounds, mut runs) = (Vec::new(), Vec::new());
    let ended = loop {
        if known.iter().all(Option::is_some) {
            break Ended::Known;
        }
        if rounds.len() >= plan.judge.design.max_pairs() {
            break Ended::Pairs;
        }
        if !has_time(plan, subject.elapsed(), rounds.len()) {
            break Ended::Time;
        }
        let mut values = vec![0.0; plan.sides];
        for side in orders.next_round() {
            values[side] = subject.run(side)?;
            runs.push((side, values[side].ln()));
        }
        rounds.push(values);
        for (index, known) in known.iter_mut().enumerate().filter(|(_, of)| of.is_none()) {
            *known = plan.judge.look(&ratios(&rounds, index + 1));
        }
    };
    let sides = known.into_iter().enumerate();
    let findings = sides.map(|(index, known)| {
        known.unwrap_or_else(|| plan.judge.last(&ratios(&rounds, index + 1)))
    });
    Ok(Tried {
        findings: findings.collect(),
        rounds,
        runs,
        ended,
    })
}

/// Whether one more round will probably end in time. The first always begins.
fn has_time(plan: &Plan, elapsed: Duration, rounds: usize) -> bool {
    let round = elapsed.checked_div(rounds as u32).unwrap_or_default();
    elapsed + round <= plan.at_most
}

/// Logarithms of the values of a side, divided by those of the first in the same round.
fn ratios(rounds: &[Vec<f64>], side: usize) -> Vec<f64> {
    let ratio = |values: &Vec<f64>| (values[side] / values[0]).ln();
    rounds.iter().map(ratio).collect()
}
