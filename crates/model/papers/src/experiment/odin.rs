//! OdinFS's machine: many threads on existing file systems and through delegates; one thread near and far.

use egeria_machine::{MemoryKind, NodeId};
use egeria_policy::planner::System;
use egeria_sim::{Allocation, MediumKind, Options, Workload};

use super::stage::{Stage, profile};
use crate::error::Result;
use crate::results::Results;

const ODIN: &str = include_str!("../../workloads/odin.toml");
/// Groups of bars.
const CASES: [(&str, f64, u64); 4] = [
    ("2 MB writes", 0.0, 2 << 20),
    ("2 MB reads", 1.0, 2 << 20),
    ("4 KB writes", 0.0, 4096),
    ("4 KB reads", 1.0, 4096),
];
/// Delegates per node in the authors' own runs (`odin.toml`); 1 is their program's default.
const DELEGATES: u32 = 12;
/// Threads at one node's persistent memory.
pub(crate) const CROWDS: [u64; 7] = [1, 2, 4, 8, 12, 20, 28];

fn workload(stage: &Stage, threads: u64, read_share: f64, bytes: u64) -> Result<Workload> {
    let mut workload = stage.steady(ODIN, "odin.toml")?;
    workload.files[0].count = threads;
    workload.threads[0].count = threads;
    let phase = &mut workload.threads[0].phases[0];
    (phase.read_share, phase.request_bytes) = (read_share, bytes);
    Ok(workload)
}

/// All threads of the machine: existing file systems, and OdinFS.
pub(super) fn performance(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = profile("odin-8s")?;
    for (case, read_share, bytes) in CASES {
        let workload = workload(stage, 224, read_share, bytes)?;
        let existing = Options {
            allocation: Allocation::Node(0),
            ..Options::published(System::Off)
        };
        let mut odin = Options::published(System::Odin);
        odin.planner.delegation.delegates_per_node = DELEGATES;
        for (bar, options) in [("existing", existing), ("odin", odin)] {
            let outcome = stage.outcome(&machine, &workload, &options)?;
            results.set("O", case, bar, outcome.bytes_s);
        }
        let memories = machine
            .nodes
            .iter()
            .flat_map(|node| &node.hardware.memories);
        let persistent = memories.filter(|memory| memory.kind == MemoryKind::Persistent);
        let raw = persistent.map(|memory| {
            if read_share > 0.0 {
                memory.read_bytes_s
            } else {
                memory.write_bytes_s
            }
        });
        results.set("O", case, "raw", raw.sum());
    }
    Ok(())
}

/// One thread on its data's node and on another, persistent memory and DRAM; and more and more threads that write
/// on one node.
pub(super) fn nodes(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = profile("odin-8s")?;
    let run =
        |workload: &Workload| stage.outcome(&machine, workload, &Options::published(System::Off));
    for (group, medium) in [
        ("persistent", MediumKind::Storage),
        ("DRAM", MediumKind::Memory),
    ] {
        for (kind, read_share) in [("read", 1.0), ("write", 0.0)] {
            for (bar, node) in [("local", 0), ("remote", 1)] {
                let mut workload = workload(stage, 1, read_share, 2 << 20)?;
                workload.files[0].medium = medium;
                bind(&mut workload, node);
                // What a thread writes stays where the file is.
                let outcome = match (medium, read_share > 0.0) {
                    (MediumKind::Storage, false) => {
                        let options = Options {
                            allocation: Allocation::Node(0),
                            ..Options::published(System::Off)
                        };
                        stage.outcome(&machine, &workload, &options)?
                    }
                    _ => run(&workload)?,
                };
                results.set(
                    "O one thread",
                    &format!("{group} {kind}"),
                    bar,
                    outcome.bytes_s,
                );
            }
        }
    }
    let mut points = Vec::new();
    for threads in CROWDS {
        let mut workload = workload(stage, threads, 0.0, 2 << 20)?;
        bind(&mut workload, 0);
        points.push((threads as f64, run(&workload)?.bytes_s));
    }
    results.set_curve("O one node", "writes", points);
    Ok(())
}

fn bind(workload: &mut Workload, node: u16) {
    let group = &mut workload.threads[0];
    group.start_node = Some(NodeId(node));
    group.pinned = true;
}
