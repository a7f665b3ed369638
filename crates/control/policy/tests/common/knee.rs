//! Made-up machines for PATS: what persistent memory and DRAM do with so many threads at once.
//!
//! The shape is that of the paper's Figs. 1 and 4: persistent memory rises to a peak and falls
//! behind it; DRAM stays up to a knee, falls steeply, and lies on a floor from the ankle on.

use egeria_facts::{Measured, Mix};
use egeria_policy::pats::{Because, Controller, Decision, Limiter, Settings};
use egeria_stats::rng::Rng;

/// What so many threads at once make of both memories, shares of what is possible.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    /// Threads at which persistent memory is fastest.
    pub peak: f64,
    /// Threads that bring it half the way, were there no peak: how its rise bends; 0 is straight.
    pub bend: f64,
    /// What it loses per thread beyond, a share.
    pub fall: f64,
    /// Threads up to which DRAM loses 1 % each.
    pub knee: f64,
    /// Threads from the knee to the ankle.
    pub waterfall: f64,
    /// What DRAM keeps behind the ankle, a share.
    pub floor: f64,
    /// Threads that ask.
    pub demand: u32,
    /// What DRAM is asked for, a share.
    pub dram_asked: f64,
}

impl Default for Curve {
    fn default() -> Curve {
        Curve {
            peak: 5.0,
            bend: 0.0,
            fall: 0.03,
            knee: 4.0,
            waterfall: 4.0,
            floor: 0.1,
            demand: 1000,
            dram_asked: 1.0,
        }
    }
}

impl Curve {
    /// Persistent memory at a limit.
    pub fn pm(&self, limit: u32) -> f64 {
        let threads = f64::from(limit.min(self.demand));
        let bent = |threads: f64| match self.bend {
            0.0 => threads,
            bend => threads / (threads + bend),
        };
        let rise = bent(threads.min(self.peak)) / bent(self.peak);
        let beyond = (threads - self.peak).max(0.0);
        rise / (1.0 + self.fall * beyond)
    }

    /// DRAM at a limit.
    pub fn dram(&self, limit: u32) -> f64 {
        let threads = f64::from(limit.min(self.demand));
        let before = 1.0 - 0.01 * threads.min(self.knee);
        let steps = ((threads - self.knee).max(0.0) / self.waterfall).min(1.0);
        self.dram_asked * (before + (self.floor - before) * steps)
    }

    /// Whether DRAM bears a limit.
    pub fn bears(&self, limit: u32, tolerated_loss: f64) -> bool {
        let best = self.dram(1);
        self.dram(limit) >= (1.0 - tolerated_loss) * best - 1e-12
    }

    /// The best of persistent memory that a constant limit has while DRAM bears it.
    pub fn best_pm(&self, settings: &Settings) -> f64 {
        let limits = 1..=settings.max_threads;
        let borne = limits.filter(|&limit| self.bears(limit, settings.tolerated_loss));
        borne.map(|limit| self.pm(limit)).fold(0.0, f64::max)
    }

    /// What a window under this limit measures, with noise on both.
    pub fn measured(&self, limit: u32, noise: &mut Noise) -> Measured {
        let (pm, dram) = (noise.factor(), noise.factor());
        Measured {
            mix: Mix {
                requests: 1000,
                mean_bytes: 4096.0,
                write_share: 1.0,
            },
            demand: self.demand,
            pm_bytes_s: 2e9 * self.pm(limit) * pm,
            dram_bytes_s: Some(5e9 * self.dram(limit) * dram),
        }
    }
}

/// Noise from a seed: near normal, with this standard deviation.
#[derive(Clone, Debug)]
pub struct Noise {
    rng: Rng,
    deviation: f64,
}

impl Noise {
    pub fn none() -> Noise {
        Noise::new(0, 0.0)
    }

    pub fn new(seed: u64, deviation: f64) -> Noise {
        Noise {
            rng: Rng::new(seed),
            deviation,
        }
    }

    /// From 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn factor(&mut self) -> f64 {
        let sum: f64 = (0..12).map(|_| self.unit()).sum();
        (1.0 + self.deviation * (sum - 6.0)).max(0.05)
    }
}

/// Gives a limiter windows; the limits it set, that of the first window first.
pub fn run(limiter: &mut Limiter, curve: &Curve, noise: &mut Noise, windows: u32) -> Vec<u32> {
    let steps = run_told(limiter, curve, noise, windows);
    steps.into_iter().map(|(limit, _)| limit).collect()
}

/// The same, with what was said after each window.
pub fn run_told(
    limiter: &mut Limiter,
    curve: &Curve,
    noise: &mut Noise,
    windows: u32,
) -> Vec<(u32, Decision)> {
    let step = |_| {
        let limit = limiter.limit();
        let decision = limiter.next(&curve.measured(limit, noise));
        (limit, decision)
    };
    (0..windows).map(step).collect()
}

/// A machine of any kind, from a seed.
pub fn any_curve(seed: u64) -> Curve {
    let mut draw = Noise::new(seed * 7919, 0.0);
    let mut between = |low: f64, high: f64| low + (high - low) * draw.unit();
    Curve {
        peak: between(1.0, 40.0).powf(between(0.3, 1.0)),
        bend: [0.0, between(0.5, 20.0)][usize::from(between(0.0, 1.0) < 0.5)],
        fall: between(0.0, 0.1),
        knee: between(1.0, 40.0).powf(between(0.3, 1.0)),
        waterfall: between(1.0, 8.0),
        floor: between(0.02, 0.6),
        ..Curve::default()
    }
}

/// Where the limit rested after each window; `None` before it first did.
pub fn rests(steps: &[(u32, Decision)]) -> Vec<Option<u32>> {
    let rest = |rest: &mut Option<u32>, (_, decision): &(u32, Decision)| {
        if decision.because == Because::Settled {
            *rest = Some(decision.limit);
        }
        Some(*rest)
    };
    steps.iter().scan(None, rest).collect()
}

/// The settings with the learned limit.
pub fn learned() -> Settings {
    Settings {
        controller: Controller::Learned,
        ..Settings::default()
    }
}

/// Within 10 % of the best constant limit, and borne.
pub fn is_good(curve: &Curve, limit: u32, slack: f64) -> bool {
    let settings = learned();
    let strict = Settings {
        tolerated_loss: settings.tolerated_loss - slack,
        ..settings.clone()
    };
    let borne = curve.bears(limit, settings.tolerated_loss + slack);
    borne && curve.pm(limit) >= 0.9 * curve.best_pm(&strict)
}

/// The limit that was there most often.
pub fn most_frequent(limits: &[u32]) -> u32 {
    let count = |limit: u32| limits.iter().filter(|&&each| each == limit).count();
    let most = limits.iter().copied().max_by_key(|&limit| count(limit));
    most.expect("limits")
}
