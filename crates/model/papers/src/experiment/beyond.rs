//! What no paper measured: the learned limit compared with the formula, and moving data compared with moving threads.

use egeria_machine::Machine;
use egeria_policy::pats::Controller;
use egeria_policy::planner::System;
use egeria_sim::Options;

use super::stage::{Stage, profile};
use crate::error::{Result, shipped};
use crate::results::Results;

const LIMITS: &str = include_str!("../../workloads/limits.toml");
const HOT: &str = include_str!("../../workloads/hot.toml");

/// Machines, mixes and systems of the first.
pub(crate) const MACHINES: [(&str, &str); 4] = [
    ("optane-1s", "1 DIMM"),
    ("optane-1s-2i", "2 DIMMs"),
    ("optane-1s-3i", "3 DIMMs"),
    ("odin-8s", "6 DIMMs"),
];
pub(crate) const MIXES: [(f64, &str); 2] = [(1.0, "reads"), (0.0, "writes")];
pub(crate) const LIMITED: [&str; 3] = ["off", "formula", "learned"];
/// Machines of the second, with their nodes.
pub(crate) const NODES: [(&str, &str); 2] =
    [("optane-2s", "2 nodes"), ("optane-4s-emulated", "4 nodes")];

/// What the copy and persistent memory get without a limit, with Eq. 1's and with the learned one.
pub(super) fn limits(stage: &Stage, results: &mut Results) -> Result<()> {
    for (name, words) in MACHINES {
        let machine = profile(name)?;
        for (read_share, mix) in MIXES {
            let mut workload = stage.steady(LIMITS, "limits.toml")?;
            workload.threads[1].phases[0].read_share = read_share;
            for limited in LIMITED {
                let mut options = Options::of(match limited {
                    "off" => System::Off,
                    _ => System::Pats,
                });
                if limited == "learned" {
                    options.planner.pats.controller = Controller::Learned;
                }
                let outcome = egeria_sim::run(&machine, &workload, &options)
                    .map_err(|error| shipped("limits.toml", error))?;
                let group = format!("{words}, {mix}");
                // A copied byte is read and written.
                let copied = outcome.groups[0].bytes_s / 2.0;
                results.set("beyond: copy", &group, limited, copied);
                let moved = outcome.groups[1].bytes_s;
                results.set("beyond: persistent memory", &group, limited, moved);
            }
        }
    }
    Ok(())
}

/// Operations/s when all data that is read lies on one node.
pub(super) fn hot_data(stage: &Stage, results: &mut Results) -> Result<()> {
    for (name, words) in NODES {
        let machine: Machine = profile(name)?;
        let workload = stage.steady(HOT, "hot.toml")?;
        for system in [System::Off, System::Full, System::All] {
            let outcome = egeria_sim::run(&machine, &workload, &Options::of(system))
                .map_err(|error| shipped("hot.toml", error))?;
            results.set(
                "beyond: hot data",
                words,
                system.name(),
                outcome.operations_s,
            );
        }
    }
    Ok(())
}
