//! What the whole planner makes of programs whose threads and memory lie badly, compared with deciding nothing, with the
//! best of many random placements, and with the rules of what people use: the kernel's NUMA balancing, numad, interleaving.
//!
//! Placements of others are there from the begin and cost nothing. What `all` decides is counted after twenty windows.

mod peers;
mod programs;
mod summary;

use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_sim::{Allocation, Options, Outcome, Workload};
use egeria_stats::rng::Rng;
use serde::Serialize;

use super::speed;
use crate::error::{Result, shipped};
pub use summary::{Aim, Mean, Placement};

/// Random placements that `all` is compared with.
const PLACEMENTS: u64 = 50;
/// Moving a gigabyte of memory, s. Assumed: 2 GB/s, as of `move_pages` on machines of today.
const MIGRATION_S_PER_GB: f64 = 0.5;

/// Programs on a machine, and what is wrong with their placement.
pub struct Scene {
    pub machine: Machine,
    pub workload: Workload,
    pub faults: Vec<&'static str>,
}

/// What each gets of one scene, divided by what `off` gets.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Case {
    pub number: u64,
    /// The machine's profile.
    pub machine: String,
    pub faults: Vec<&'static str>,
    /// Speed of `all`.
    pub all: f64,
    /// The best of the random placements.
    pub random: f64,
    /// Each peer.
    pub peers: Vec<(&'static str, f64)>,
    /// The best of nothing, the random placements and the peers, and its name.
    pub best: (&'static str, f64),
}

/// The scene of this number.
///
/// # Errors
/// When a profile that ships with Egeria is damaged.
pub fn scene(seed: u64, number: u64) -> Result<Scene> {
    let name = programs::MACHINES[number as usize % programs::MACHINES.len()];
    let machine = Machine::profile(name).map_err(|error| shipped(name, error))?;
    let machine = programs::small(machine);
    let (workload, faults) = programs::programs(&machine, seed, number);
    Ok(Scene {
        machine,
        workload,
        faults: faults.into_iter().map(programs::Fault::name).collect(),
    })
}

impl Scene {
    /// Runs a system from the start to the end.
    ///
    /// # Errors
    /// When the workload does not fit the machine.
    pub fn run(&self, system: System) -> Result<Outcome> {
        self.outcome(&self.workload, system)
    }

    /// What threads get without any decision, once phases came round.
    fn undecided(&self, workload: &Workload) -> Result<Outcome> {
        let is_steady = workload.threads.iter().all(|group| group.phases.len() == 1);
        let short = Workload {
            seconds: if is_steady {
                1.0
            } else {
                programs::CYCLE_SECONDS
            },
            warm_up_seconds: 0.0,
            ..workload.clone()
        };
        self.outcome(&short, System::Off)
    }

    fn outcome(&self, workload: &Workload, system: System) -> Result<Outcome> {
        let options = Options {
            allocation: Allocation::InPlace,
            window_ns: programs::WINDOW_NS,
            migration_s_per_gb: MIGRATION_S_PER_GB,
            ..Options::of(system)
        };
        egeria_sim::run(&self.machine, workload, &options)
            .map_err(|error| shipped(&workload.name, error))
    }

    /// All placements that `all` is compared with, with their names.
    pub fn others(&self, seed: u64, number: u64) -> Vec<(&'static str, Workload)> {
        let mut rng = Rng::of(&[seed, number, 1]);
        let random = (0..PLACEMENTS).map(|_| {
            let placed = peers::at_random(&self.machine, &self.workload, &mut rng);
            ("random", placed)
        });
        let peers = peers::PEERS.iter();
        let rules = peers.map(|(name, rule)| (*name, rule(&self.machine, &self.workload)));
        random.chain(rules.collect::<Vec<_>>()).collect()
    }

    /// What a placement gets, divided by what that of the start gets.
    ///
    /// # Errors
    /// When the workload does not fit the machine.
    pub fn speed_of(&self, placed: &Workload) -> Result<f64> {
        Ok(speed(
            &self.undecided(placed)?,
            &self.undecided(&self.workload)?,
        ))
    }

    /// Runs everything.
    ///
    /// # Errors
    /// When the workload does not fit the machine.
    pub fn case(&self, seed: u64, number: u64) -> Result<Case> {
        let off = self.undecided(&self.workload)?;
        let (mut best, mut random, mut peers) = (("off", 1.0), 0.0, Vec::new());
        for (name, placed) in self.others(seed, number) {
            let speed = speed(&self.undecided(&placed)?, &off);
            if speed > best.1 {
                best = (name, speed);
            }
            match name {
                "random" => random = speed.max(random),
                peer => peers.push((peer, speed)),
            }
        }
        Ok(Case {
            number,
            machine: self.machine.name.clone(),
            faults: self.faults.clone(),
            all: speed(&self.run(System::All)?, &off),
            random,
            peers,
            best,
        })
    }
}
