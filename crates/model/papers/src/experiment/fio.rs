//! fio on NThread's machine: Figs. 4, 5, 8 and 9.

use egeria_machine::NodeId;
use egeria_policy::nthread::{Configuration, Settings};
use egeria_sim::{Outcome, Workload};

use super::file_system::{Metadata, Writes};
use super::stage::{Stage, System};
use crate::error::Result;
use crate::results::Results;

const FIO: &str = include_str!("../../workloads/fio.toml");
/// NThread §V-C: cores left active on each node.
const CORES: u32 = 4;
/// Weight of a byte read (NThread Eq. 1), used in the figures.
const READ_WEIGHT: f64 = 1.0 / 3.0;
/// The mixes of Fig. 5: group, share of reads.
pub(crate) const MIXES: [(&str, f64); 6] = [
    ("read-only", 1.0),
    ("rw80", 0.8),
    ("rw60", 0.6),
    ("rw40", 0.4),
    ("rw20", 0.2),
    ("write-only", 0.0),
];

/// Bandwidth by Eq. 1 with this weight, bytes/s.
fn weighted(outcome: &Outcome, read_share: f64, weight: f64) -> f64 {
    outcome.bytes_s * (read_share * weight + 1.0 - read_share)
}

fn fio(stage: &Stage, threads: u64, read_share: f64, request_bytes: u64) -> Result<Workload> {
    let mut workload = stage.workload(FIO, "fio.toml")?;
    workload.files[0].count = threads;
    let group = &mut workload.threads[0];
    group.count = threads;
    group.phases[0].read_share = read_share;
    group.phases[0].request_bytes = request_bytes;
    Ok(workload)
}

/// Fig. 5: 4 KB, 4 and 8 threads, all mixes, all systems.
pub(super) fn figure_5(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = stage.optane(CORES)?;
    for (figure, threads) in [("5a", 4), ("5b", 8)] {
        for (mix, read_share) in MIXES {
            let workload = fio(stage, threads, read_share, 4096)?;
            for system in System::all() {
                let workload = system.on(&workload, Writes::InPlace, Metadata::default());
                let outcome = stage.run(&machine, &workload, &system)?;
                let bandwidth = weighted(&outcome, read_share, READ_WEIGHT);
                results.set(figure, mix, system.name, bandwidth);
            }
        }
    }
    Ok(())
}

/// Fig. 4: all data and all threads on node 0, compared with half of the threads away from the data that stays. 80 %
/// reads, as the text's example.
pub(super) fn figure_4(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = stage.optane(CORES)?;
    for (size, request_bytes) in [("1 KB", 1024), ("4 KB", 4096), ("16 KB", 16384)] {
        for threads in [8, 16] {
            let crowded = bound_to(fio(stage, threads, 0.8, request_bytes)?, &[0]);
            let spread = bound_to(fio(stage, threads, 0.8, request_bytes)?, &[0, 1]);
            let group = format!("{size}, {threads} threads");
            for (bar, workload) in [("crowded", crowded), ("spread", spread)] {
                let outcome = stage.run(&machine, &workload, &System::nova())?;
                results.set("4", &group, bar, weighted(&outcome, 0.8, READ_WEIGHT));
            }
        }
    }
    Ok(())
}

/// The threads of a workload, bound to these nodes in equal parts.
fn bound_to(mut workload: Workload, nodes: &[u16]) -> Workload {
    let whole = workload.threads[0].clone();
    let files = workload.files[0].clone();
    workload.threads.clear();
    workload.files.clear();
    for &node in nodes {
        let name = format!("fio on node {node}");
        let mut part = whole.clone();
        (part.files, part.name) = (name.clone(), name.clone());
        part.count /= nodes.len() as u64;
        part.start_node = Some(NodeId(node));
        part.pinned = true;
        let mut own = files.clone();
        (own.count, own.name) = (part.count, name);
        workload.files.push(own);
        workload.threads.push(part);
    }
    workload
}

/// §III-B: the same threads with their data on one node and on two, with enough cores; and on 4 cores and on 8. The
/// paper does not say how many threads its numbers are for, so only the order is asked for.
pub(super) fn contention(stage: &Stage, results: &mut Results) -> Result<()> {
    const THREADS: u64 = 8;
    let system = System::nova_on_each();
    let machine = stage.optane(2 * CORES)?;
    for (group, read_share) in [("reads", 1.0), ("writes", 0.0)] {
        let one = bound_to(fio(stage, THREADS, read_share, 4096)?, &[0]);
        let mut two = bound_to(fio(stage, THREADS, read_share, 4096)?, &[0, 1]);
        for (files, node) in two.files.iter_mut().zip([0, 1]) {
            files.node = Some(NodeId(node));
        }
        for (bar, workload) in [("one node", one), ("two nodes", two)] {
            let operations_s = stage.run(&machine, &workload, &system)?.operations_s;
            results.set("contention", group, bar, operations_s);
        }
    }
    let workload = bound_to(fio(stage, THREADS, 1.0, 1024)?, &[0]);
    for (bar, cores) in [("4 cores", CORES), ("8 cores", 2 * CORES)] {
        let outcome = stage.run(&stage.optane(cores)?, &workload, &system)?;
        results.set("contention", "cores", bar, outcome.operations_s);
    }
    Ok(())
}

/// Fig. 8: 16 threads of 1 KB under limits of CPU use. Fig. 9: weights of a byte read.
pub(super) fn figures_8_and_9(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = stage.optane(CORES)?;
    let workload = fio(stage, 16, 0.8, 1024)?;
    for (bar, cpu_limit) in [
        ("80 %", 0.8),
        ("90 %", 0.9),
        ("100 %", 1.0),
        ("110 %", 1.1),
        ("130 %", 1.3),
        ("none", 100.0),
    ] {
        let cpu = System::nthread(Configuration::Cpu);
        let system = System {
            nthread: Settings {
                cpu_limit,
                ..cpu.nthread.clone()
            },
            ..cpu
        };
        let outcome = stage.run(&machine, &workload, &system)?;
        results.set(
            "8",
            "1 KB, 16 threads",
            bar,
            weighted(&outcome, 0.8, READ_WEIGHT),
        );
    }
    figure_9(stage, results)
}

/// The weights of Fig. 9, as curves over the share of reads.
const WEIGHTS: [(&str, f64); 4] = [
    ("1", 1.0),
    ("1/2", 0.5),
    ("1/3", READ_WEIGHT),
    ("1/4", 0.25),
];

fn figure_9(stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = stage.optane(CORES)?;
    let mut curves = WEIGHTS.map(|(name, weight)| (name, weight, Vec::new()));
    for (_, read_share) in MIXES.into_iter().rev() {
        let workload = bound_to(fio(stage, 4, read_share, 4096)?, &[0]);
        let outcome = stage.run(&machine, &workload, &System::nova())?;
        for (_, weight, points) in &mut curves {
            points.push((read_share * 100.0, weighted(&outcome, read_share, *weight)));
        }
    }
    for (name, _, points) in curves {
        results.set_curve("9", name, points);
    }
    Ok(())
}
