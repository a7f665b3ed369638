//! Trials of programs that do not exist: runs drawn from a known truth, to count how often a trial is right.
//!
//! The loop, the looks and the judge are those of real trials. Only the values come from a formula.

use std::convert::Infallible;
use std::f64::consts::TAU;
use std::time::Duration;

use egeria_stats::rng::Rng;
use serde::Serialize;

use crate::answer::{Answer, Better, Judge};
use crate::design::Design;
use crate::trial::{Plan, Subject, Tried, run};

/// How the runs of a program differ by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    Normal,
    /// Never much faster than usual, sometimes much slower.
    Skewed,
    /// One run in ten takes up to three times as long.
    Outliers,
    /// Every run is a little slower than the one before.
    Drift,
    /// A run is much like the one before it.
    Correlated,
    /// Two speeds, 10 % apart, by chance.
    Bimodal,
    /// Two speeds, 10 % apart, in turn.
    Alternating,
    /// A clock that shows whole steps of the size of the noise.
    Coarse,
}

impl Shape {
    pub const ALL: [Shape; 8] = [
        Shape::Normal,
        Shape::Skewed,
        Shape::Outliers,
        Shape::Drift,
        Shape::Correlated,
        Shape::Bimodal,
        Shape::Alternating,
        Shape::Coarse,
    ];

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Normal => "normal",
            Shape::Skewed => "skewed",
            Shape::Outliers => "outliers",
            Shape::Drift => "drift",
            Shape::Correlated => "correlated",
            Shape::Bimodal => "bimodal",
            Shape::Alternating => "alternating",
            Shape::Coarse => "coarse",
        }
    }
}

/// A program that takes a second, with noise, and another time with the second side.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub shape: Shape,
    /// Standard deviation of the noise, as a share.
    pub noise: f64,
    /// True change of the time with the second side, as a share: -0.05 takes 5 % less.
    pub change: f64,
}

struct Simulated {
    program: Program,
    rng: Rng,
    /// Runs so far.
    runs: usize,
    /// Noise of the run before, as a share of the standard deviation.
    before: f64,
    elapsed_s: f64,
}

impl Simulated {
    fn normal(&mut self) -> f64 {
        let (first, second) = (self.rng.unit(), self.rng.unit());
        (-2.0 * first.ln()).sqrt() * (TAU * second).cos()
    }

    /// The logarithm of what the noise makes of a second.
    fn noise(&mut self) -> f64 {
        let deviation = self.program.noise;
        let usual = deviation * self.normal();
        match self.program.shape {
            Shape::Normal => usual,
            Shape::Skewed => deviation * (-self.rng.unit().ln() - 1.0),
            Shape::Outliers if self.rng.one_in(10) => usual + 3f64.ln() * self.rng.unit(),
            Shape::Outliers | Shape::Coarse => usual,
            Shape::Drift => usual + deviation / 5.0 * self.runs as f64,
            Shape::Correlated => {
                const KEPT: f64 = 0.9;
                self.before = KEPT * self.before + (1.0 - KEPT * KEPT).sqrt() * self.normal();
                deviation * self.before
            }
            Shape::Bimodal if self.rng.one_in(2) => usual + 1.1f64.ln(),
            Shape::Alternating if self.runs.is_multiple_of(2) => usual + 1.1f64.ln(),
            Shape::Bimodal | Shape::Alternating => usual,
        }
    }
}

impl Subject for Simulated {
    type Error = Infallible;

    fn run(&mut self, side: usize) -> Result<f64, Infallible> {
        let change = if side == 0 { 0.0 } else { self.program.change };
        let exact_s = (1.0 + change) * self.noise().exp();
        self.runs += 1;
        self.elapsed_s += exact_s;
        Ok(match self.program.shape {
            Shape::Coarse => {
                let step = self.program.noise.max(1e-9);
                (exact_s / step).round() * step
            }
            _ => exact_s,
        })
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs_f64(self.elapsed_s)
    }
}

/// One trial of such a program.
pub fn trial(program: Program, design: &Design, bound: f64, seed: u64) -> Tried {
    let plan = Plan {
        sides: 2,
        judge: Judge {
            design: design.clone(),
            better: Better::Lower,
            bound,
        },
        at_most: Duration::MAX,
        seed,
    };
    let mut subject = Simulated {
        program,
        // The noise must not know the order of the runs.
        rng: Rng::of(&[seed, 1]),
        runs: 0,
        before: 0.0,
        elapsed_s: 0.0,
    };
    match run(&plan, &mut subject) {
        Ok(tried) => tried,
        Err(never) => match never {},
    }
}

/// How many trials of a kind gave which answer.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Counts {
    pub trials: usize,
    pub better: usize,
    pub worse: usize,
    pub no_difference: usize,
    pub not_known: usize,
    /// Their intervals held the truth, or there was none.
    pub covered: usize,
    /// Mean number of pairs.
    pub pairs: f64,
}

/// Many trials of a program, each with its own seed.
pub fn count(program: Program, design: &Design, bound: f64, trials: usize) -> Counts {
    let mut counts = Counts {
        trials,
        ..Counts::default()
    };
    for seed in 0..trials {
        let tried = trial(program, design, bound, seed as u64);
        for found in &tried.findings {
            match found.answer {
                Answer::Better => counts.better += 1,
                Answer::Worse => counts.worse += 1,
                Answer::NoDifference => counts.no_difference += 1,
                Answer::NotKnown => counts.not_known += 1,
            }
            let interval = found.low.zip(found.high);
            let holds = |(low, high): (f64, f64)| low <= program.change && program.change <= high;
            counts.covered += usize::from(interval.is_none_or(holds));
            counts.pairs += found.pairs as f64 / trials as f64;
        }
    }
    counts
}
