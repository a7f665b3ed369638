//! Regret: what the whole planner loses to deciding nothing, and to the best of four systems that each decide a part.
//!
//! All systems get the same data at the same places. What counts is what threads get after some windows, in a geometric
//! mean over all threads: a group that gets twice as much outweighs one of as many threads that gets half.

pub mod placement;
mod published;
mod random;

use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_sim::{Allocation, Options, Outcome, Workload};
use serde::Serialize;

use crate::error::{Result, shipped};
use crate::quantile::quantile;

/// What `all` is held against: nothing, and one paper each.
pub const RIVALS: [System; 5] = [
    System::Off,
    System::Full,
    System::Pats,
    System::Odin,
    System::Asymsched,
];

/// One workload.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Case {
    /// The machine's profile.
    pub machine: String,
    pub workload: String,
    /// Every thread does the same all the time.
    pub is_steady: bool,
    /// The best of [`RIVALS`].
    pub best: &'static str,
    /// Speed of `all` divided by that of the best.
    pub vs_best: f64,
    /// Speed of `all` divided by that of `off`.
    pub vs_off: f64,
}

/// What `all` loses, over many workloads.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Regret {
    pub cases: usize,
    /// Of these, those in which `all` is more than 3 % below the best of its rivals.
    pub below_best: usize,
    /// Those in which `all` is more than 3 % below `off`.
    pub below_off: usize,
    /// Workloads in which every thread does the same all the time.
    pub steady_cases: usize,
    /// Of these, `below_best`.
    pub steady_below_best: usize,
    /// Of these, `below_off`.
    pub steady_below_off: usize,
    /// Speed of `all` divided by that of the best: the worst, and the value that 1 %, 5 % and half of the workloads
    /// are below.
    pub vs_best: [f64; 4],
    /// Speed of `all` divided by that of `off`, at the same quantiles.
    pub vs_off: [f64; 4],
    /// Speed of `all` divided by that of the best, in a geometric mean over the workloads.
    pub mean_vs_best: f64,
    /// Speed of `all` divided by that of `off`, in a geometric mean over the workloads.
    pub mean_vs_off: f64,
    /// The worst cases, compared with the best.
    pub worst: Vec<Case>,
}

/// Loss that counts as none.
pub const TOLERATED: f64 = 0.03;
const WORST: usize = 20;

/// A random workload by number, on the machine that this number has.
///
/// # Errors
/// When a profile that ships with Egeria is damaged.
pub fn random(seed: u64, number: u64) -> Result<(Machine, Workload, Allocation)> {
    let name = random::MACHINES[number as usize % random::MACHINES.len()];
    let machine = Machine::profile(name).map_err(|error| shipped(name, error))?;
    let (workload, allocation) = random::workload(&machine, seed, number);
    Ok((machine, workload, allocation))
}

/// The workloads of the papers, each on the machines that it is about; what they write goes to the writer's node.
///
/// # Errors
/// When a file that ships with Egeria is damaged.
pub fn published() -> Result<Vec<(Machine, Workload, Allocation)>> {
    let all = published::published()?.into_iter();
    let placed = all.map(|(machine, workload)| (machine, workload, Allocation::Local));
    Ok(placed.collect())
}

/// Runs all systems on a workload.
///
/// # Errors
/// When the workload does not fit the machine.
pub fn case(machine: &Machine, workload: &Workload, allocation: Allocation) -> Result<Case> {
    let run = |system: System| {
        let options = Options {
            allocation,
            ..Options::of(system)
        };
        egeria_sim::run(machine, workload, &options).map_err(|error| shipped(&workload.name, error))
    };
    let off = run(System::Off)?;
    let mut best = (System::Off, 1.0);
    for system in RIVALS.into_iter().skip(1) {
        let speed = speed(&run(system)?, &off);
        if speed > best.1 {
            best = (system, speed);
        }
    }
    let all = speed(&run(System::All)?, &off);
    Ok(Case {
        machine: machine.name.clone(),
        workload: workload.name.clone(),
        is_steady: workload.threads.iter().all(|group| group.phases.len() == 1),
        best: best.0.name(),
        vs_best: all / best.1,
        vs_off: all,
    })
}

/// What threads get compared with what they get in `first`, in a geometric mean.
pub fn speed(outcome: &Outcome, first: &Outcome) -> f64 {
    let (mut sum, mut threads) = (0.0, 0.0);
    for (group, before) in outcome.groups.iter().zip(&first.groups) {
        if before.operations_s > 0.0 {
            let ratio = (group.operations_s / before.operations_s).max(1e-9);
            sum += ratio.ln() * group.threads as f64;
            threads += group.threads as f64;
        }
    }
    if threads > 0.0 {
        (sum / threads).exp()
    } else {
        1.0
    }
}

impl Regret {
    /// Of these cases.
    pub fn of(mut cases: Vec<Case>) -> Regret {
        let below = |is_meant: &dyn Fn(&Case) -> bool, ratio: &dyn Fn(&Case) -> f64| {
            let losing = cases.iter().filter(|case| is_meant(case));
            losing.filter(|case| ratio(case) < 1.0 - TOLERATED).count()
        };
        let (any, steady) = (|_: &Case| true, |case: &Case| case.is_steady);
        let (vs_best, vs_off) = (|case: &Case| case.vs_best, |case: &Case| case.vs_off);
        let (below_best, below_off) = (below(&any, &vs_best), below(&any, &vs_off));
        let steady_cases = cases.iter().filter(|case| case.is_steady).count();
        let steady_below_best = below(&steady, &vs_best);
        let steady_below_off = below(&steady, &vs_off);
        let spread = |ratio: &dyn Fn(&Case) -> f64| {
            let mut ratios: Vec<f64> = cases.iter().map(ratio).collect();
            ratios.sort_by(f64::total_cmp);
            [0.0, 0.01, 0.05, 0.5].map(|share| quantile(&ratios, share))
        };
        let mean = |ratio: &dyn Fn(&Case) -> f64| {
            let sum: f64 = cases.iter().map(|case| ratio(case).ln()).sum();
            (sum / cases.len().max(1) as f64).exp()
        };
        let (mean_vs_best, mean_vs_off) = (mean(&vs_best), mean(&vs_off));
        let (vs_best, vs_off) = (spread(&vs_best), spread(&vs_off));
        let count = cases.len();
        cases.sort_by(|one, other| one.vs_best.total_cmp(&other.vs_best));
        cases.truncate(WORST);
        Regret {
            cases: count,
            below_best,
            below_off,
            steady_cases,
            steady_below_best,
            steady_below_off,
            vs_best,
            vs_off,
            mean_vs_best,
            mean_vs_off,
            worst: cases,
        }
    }
}
