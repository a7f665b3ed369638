//! The workloads of the papers, on the machines that they are about.

use egeria_machine::Machine;
use egeria_sim::Workload;

use crate::error::{Result, shipped};

const WORKLOADS: [(&str, &str, &[&str]); 9] = [
    (
        "asymsched",
        include_str!("../../workloads/asymsched.toml"),
        &["bulldozer-8n"],
    ),
    (
        "filebench",
        include_str!("../../workloads/filebench.toml"),
        &["optane-2s"],
    ),
    (
        "fio",
        include_str!("../../workloads/fio.toml"),
        &["optane-2s", "optane-4s-emulated"],
    ),
    (
        "hot",
        include_str!("../../workloads/hot.toml"),
        &["optane-2s", "optane-4s-emulated"],
    ),
    (
        "limits",
        include_str!("../../workloads/limits.toml"),
        &["optane-1s", "optane-1s-2i", "optane-1s-3i", "odin-8s"],
    ),
    (
        "odin",
        include_str!("../../workloads/odin.toml"),
        &["odin-8s"],
    ),
    (
        "pats",
        include_str!("../../workloads/pats.toml"),
        &["optane-1s", "optane-1s-dimc"],
    ),
    (
        "rocksdb-fill",
        include_str!("../../workloads/rocksdb-fill.toml"),
        &["optane-2s"],
    ),
    (
        "rocksdb-read",
        include_str!("../../workloads/rocksdb-read.toml"),
        &["optane-2s"],
    ),
];

/// Each of them on each of its machines.
pub(super) fn published() -> Result<Vec<(Machine, Workload)>> {
    let mut all = Vec::new();
    for (name, text, machines) in WORKLOADS {
        for profile in machines {
            let machine = Machine::profile(profile).map_err(|error| shipped(profile, error))?;
            let workload = Workload::from_toml(text, name).map_err(|error| shipped(name, error))?;
            all.push((machine, super::random::lasting(workload)));
        }
    }
    Ok(all)
}
