//! RocksDB on NThread's machine: Figs. 2 and 7.

use egeria_machine::{Machine, NodeId};
use egeria_sim::Workload;

use super::file_system::{Metadata, Writes};
use super::filebench::{CORES, add_instance};
use super::stage::{Stage, System};
use crate::error::Result;
use crate::results::Results;

const READ: &str = include_str!("../../workloads/rocksdb-read.toml");
const FILL: &str = include_str!("../../workloads/rocksdb-fill.toml");
/// Groups of threads that are counted, by how their names begin.
const GETS: &str = "get";
/// R, or RW with the thread that writes.
fn reads(stage: &Stage, writes: bool) -> Result<Workload> {
    let mut workload = stage.workload(READ, "rocksdb-read.toml")?;
    if !writes {
        workload.files.truncate(1);
        workload.threads.truncate(1);
    }
    Ok(workload)
}

fn read_throughput(
    stage: &Stage,
    machine: &Machine,
    workload: &Workload,
    system: &System,
) -> Result<f64> {
    let workload = system.on(workload, Writes::New, Metadata::default());
    let outcome = stage.run(machine, &workload, system)?;
    let gets = outcome
        .groups
        .iter()
        .filter(|group| group.name.starts_with(GETS));
    Ok(gets.map(|group| group.operations_s).sum())
}

/// Puts/s: the mean time of a leader on each node.
fn fill_throughput(stage: &Stage, machine: &Machine, system: &System) -> Result<f64> {
    let mut seconds = 0.0;
    let nodes = machine.nodes.len() as u16;
    for node in 0..nodes {
        let mut workload = stage.workload(FILL, "rocksdb-fill.toml")?;
        workload.threads[0].start_node = Some(NodeId(node));
        let workload = system.on(&workload, Writes::New, Metadata::default());
        seconds += 1.0 / stage.run(machine, &workload, system)?.operations_s;
    }
    Ok(f64::from(nodes) / seconds)
}

/// Fig. 7a and 7b: W, R and RW, one and two instances.
pub(super) fn figure_7(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = stage.optane(CORES)?;
    for system in System::all() {
        let puts_s = fill_throughput(stage, &machine, &system)?;
        results.set("7a", "W", system.name, puts_s);
        // Two leaders leave DIMMs and links idle: neither is in the other's way.
        results.set("7b", "W", system.name, 2.0 * puts_s);
        for (group, writes) in [("R", false), ("RW", true)] {
            let one = reads(stage, writes)?;
            let mut two = one.clone();
            add_instance(&mut two, 1);
            let gets_s = read_throughput(stage, &machine, &one, &system)?;
            results.set("7a", group, system.name, gets_s);
            let gets_s = read_throughput(stage, &machine, &two, &system.for_two())?;
            results.set("7b", group, system.name, gets_s);
        }
    }
    Ok(())
}

/// Fig. 7c: one instance on four nodes, 1 M keys, DRAM as persistent memory (§V-F).
pub(super) fn four_nodes(stage: &Stage, results: &mut Results) -> Result<()> {
    const KEYS_TO_10_M: u64 = 10;
    let machine = stage.emulated("optane-4s-emulated", CORES)?;
    for system in System::all() {
        let puts_s = fill_throughput(stage, &machine, &system)?;
        results.set("7c", "W", system.name, puts_s);
        for (group, writes) in [("R", false), ("RW", true)] {
            let mut workload = reads(stage, writes)?;
            workload.files[0].bytes /= KEYS_TO_10_M;
            let gets_s = read_throughput(stage, &machine, &workload, &system)?;
            results.set("7c", group, system.name, gets_s);
        }
    }
    Ok(())
}

/// Fig. 2: two instances; threads free, with their data, and away from it.
pub(super) fn figure_2(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = stage.optane(CORES)?;
    let nova = System::nova();
    for (group, writes) in [("R", false), ("RW", true)] {
        let free = reads(stage, writes)?;
        for (bar, node) in [("all local", 0), ("all remote", 1)] {
            let bound = bound_to(free.clone(), node);
            let throughput = 2.0 * read_throughput(stage, &machine, &bound, &nova)?;
            results.set("2", group, bar, throughput);
        }
        let mut two = free;
        add_instance(&mut two, 1);
        for system in [System::nova_on_each(), System::nova_n()] {
            let throughput = read_throughput(stage, &machine, &two, &system)?;
            results.set("2", group, system.name, throughput);
        }
        for system in System::others() {
            let bound = bound_to(reads(stage, writes)?, 0);
            let local = 2.0 * read_throughput(stage, &machine, &bound, &system)?;
            let throughput = read_throughput(stage, &machine, &two, &system.for_two())?;
            results.set("2 of all local", group, system.name, throughput / local);
        }
    }
    Ok(())
}

fn bound_to(mut workload: Workload, node: u16) -> Workload {
    for group in &mut workload.threads {
        group.start_node = Some(NodeId(node));
        group.pinned = true;
    }
    workload
}
