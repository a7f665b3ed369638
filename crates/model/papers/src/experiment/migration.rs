//! AsymSched: how long moving memory takes, and how placements are looked for.

use egeria_facts::{AccessWindow, NodeAccesses, ProcessAccesses, ProcessKey};
use egeria_machine::Machine;
use egeria_machine::fair::{Flow, max_min_shares};
use egeria_policy::asymsched::{Settings, plan};

use super::asymsched::sets;
use super::stage::{Stage, profile};
use crate::error::{Result, shipped};
use crate::results::Results;

const GB: f64 = 1e9;
const MS_PER_S: f64 = 1e3;
/// Table 5: programs on three nodes, with the GB that were moved.
const MOVED_GB: [(&str, f64); 7] = [
    ("cg.B", 0.17),
    ("ft.C", 2.5),
    ("is.D", 20.0),
    ("sp.A", 0.1),
    ("streamcluster", 0.15),
    ("graph500", 0.3),
    ("SPECjbb", 10.0),
];
/// §4.3: worker threads take pages from one array, this number at once.
const CHUNK_BYTES: f64 = 30e3 * 4096.0;
/// Nodes that clusters may move between. Which set carries most is answered by `A2`; here any set will do.
const NODES: usize = 8;

/// Table 5: copying at the speed of links and memory. It is arithmetic on inputs, and not counted.
pub(super) fn migration(_stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = profile("bulldozer-8n")?;
    for (program, moved_gb) in MOVED_GB {
        let fast_ms = mean_seconds(&machine, moved_gb * GB)? * MS_PER_S;
        results.set("A t5", program, "fast", fast_ms);
    }
    Ok(())
}

/// Bytes/s of each pair when memory goes from the first to the second node of each at once.
fn rates(machine: &Machine, pairs: &[(usize, usize)]) -> Result<Vec<f64>> {
    let paths = machine
        .paths()
        .map_err(|error| shipped(&machine.name, error))?;
    let paths = paths.ok_or_else(|| shipped(&machine.name, "it has no links"))?;
    let capacities: Vec<f64> = paths.lanes.iter().map(|lane| lane.bytes_s).collect();
    let memory_bytes_s = |node: usize| {
        let memories = machine.nodes[node].hardware.memories.iter();
        memories.map(|memory| memory.read_bytes_s).sum::<f64>()
    };
    let flow = |&(from, to): &(usize, usize)| Flow {
        uses: paths
            .way(from, to)
            .iter()
            .map(|lane| (*lane, 1.0))
            .collect(),
        most: memory_bytes_s(from).min(memory_bytes_s(to)),
        weight: 1.0,
    };
    let flows: Vec<Flow> = pairs.iter().map(flow).collect();
    Ok(max_min_shares(&capacities, &flows))
}

/// How long it takes to move so much, which lies on the first nodes of all pairs in equal parts: a worker per pair
/// takes chunks, the last of which is smaller, so that little memory keeps few of them busy.
fn seconds(machine: &Machine, pairs: &[(usize, usize)], bytes: f64) -> Result<f64> {
    let chunks = (bytes / CHUNK_BYTES).ceil() as usize;
    let mut left = vec![0.0; pairs.len()];
    for chunk in 0..chunks {
        left[chunk % pairs.len()] += (bytes - chunk as f64 * CHUNK_BYTES).min(CHUNK_BYTES);
    }
    let mut elapsed_s = 0.0;
    loop {
        let busy: Vec<usize> = (0..pairs.len()).filter(|at| left[*at] > 0.0).collect();
        if busy.is_empty() {
            return Ok(elapsed_s);
        }
        let moving: Vec<_> = busy.iter().map(|at| pairs[*at]).collect();
        let rates = rates(machine, &moving)?;
        let ends = busy.iter().zip(&rates).map(|(at, rate)| left[*at] / rate);
        let step_s = ends.fold(f64::INFINITY, f64::min);
        for (at, rate) in busy.iter().zip(&rates) {
            let rest = left[*at] - rate * step_s;
            // What rounding leaves is nothing.
            left[*at] = if rest < 1.0 { 0.0 } else { rest };
        }
        elapsed_s += step_s;
    }
}

/// From one set of three nodes to another that shares none with it, the mean of all such pairs of sets: programs began
/// on random nodes (§5).
fn mean_seconds(machine: &Machine, bytes: f64) -> Result<f64> {
    let (mut sum_s, mut count) = (0.0, 0.0);
    for from in sets(NODES, 3) {
        for to in sets(NODES, 3) {
            if from.iter().any(|node| to.contains(node)) {
                continue;
            }
            let pairs: Vec<(usize, usize)> = from.iter().copied().zip(to).collect();
            sum_s += seconds(machine, &pairs, bytes)?;
            count += 1.0;
        }
    }
    Ok(sum_s / count)
}

/// §4.3: four clusters of two nodes, as the policy's own search goes about it.
pub(super) fn search(_stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = profile("bulldozer-8n")?;
    let window = AccessWindow {
        number: 1,
        end_ns: 1_000_000_000,
        processes: (0..4).map(cluster).collect(),
        migration_cost: None,
        free_bytes: Vec::new(),
        kernel_balances: false,
    };
    let plan = plan(&machine, &window, &Settings::default());
    let evaluated = plan.search.evaluated as f64;
    results.set("A search", "4 x 2 nodes", "evaluated", evaluated);
    // Of the paper's 5,040.
    results.set(
        "A search",
        "4 x 2 nodes",
        "skipped",
        1.0 - evaluated / 5040.0,
    );
    Ok(())
}

/// A process on two nodes that do not belong together, with 8 threads and 1 GB on each.
fn cluster(number: u16) -> ProcessAccesses {
    let nodes = [number, number + 4];
    let accesses = |node: u16| {
        let mut accesses_s = vec![0.0; NODES];
        for memory in nodes {
            accesses_s[usize::from(memory)] = 1e7 * f64::from(number + 1);
        }
        NodeAccesses {
            node: egeria_machine::NodeId(node),
            threads: 8,
            pinned: false,
            accesses_s,
            resident_bytes: 1 << 30,
        }
    };
    ProcessAccesses {
        process: ProcessKey {
            process_id: u32::from(number) + 1,
            start_ticks: 1,
        },
        nodes: nodes.map(accesses).to_vec(),
        running_ns: u64::MAX / 2,
        ..ProcessAccesses::default()
    }
}
