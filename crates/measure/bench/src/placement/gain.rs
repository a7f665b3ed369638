//! What the end state of a run gives on real machines, in the model: threads where they were, memory where it was, and nothing moves.

use std::collections::BTreeMap;

use egeria_machine::{Machine, NodeId};
use egeria_policy::planner::System;
use egeria_sim::{
    Allocation, FileGroup, MediumKind, Options, Pattern, Phase, ThreadGroup, Workload,
};

use super::raw::Run;

/// Throughput compared with that of `nothing`, by profile.
pub type Gains = BTreeMap<&'static str, f64>;

/// Machines that the states are put on.
const TWO_NODES: [&str; 2] = ["xeon-2s-dram", "epyc-2s-cxl"];
const MORE_NODES: [&str; 2] = ["bulldozer-8n", "odin-8s"];
/// Each thread's memory, far beyond the caches.
const BYTES: u64 = 4_000_000_000;
/// Threads that a state is made of, at least, so that shares of some percent are seen; more would want more cores than a node of
/// `bulldozer-8n` has.
const MIN_THREADS: f64 = 16.0;

/// The profiles for machines with this number of nodes with CPUs.
pub fn profiles(nodes: usize) -> [&'static str; 2] {
    if nodes <= 2 { TWO_NODES } else { MORE_NODES }
}

/// The gains of a run; `of_fault` are the runs of its case. Without `nothing`, or where a profile has no such nodes, there are none.
pub fn gains(run: &Run, of_fault: &[&Run]) -> Gains {
    let nothing = of_fault.iter().find(|other| other.head.system == "nothing");
    // The same work for all, whatever time each got.
    let busy = of_fault.iter().flat_map(|other| other.end());
    let busy = busy.map(|sample| sample.busy).fold(0.0, f64::max);
    let gain = |profile: &'static str| {
        let machine = Machine::profile(profile).ok()?;
        let base = rate(&machine, nothing?, busy)?;
        Some((profile, rate(&machine, run, busy)? / base))
    };
    profiles(run.head.nodes)
        .into_iter()
        .filter_map(gain)
        .collect()
}

/// Operations/s of the end state; `None` where there are no accesses, or the machine has no such nodes.
fn rate(machine: &Machine, run: &Run, busy: f64) -> Option<f64> {
    let workload = workload(machine, run, busy)?;
    let options = Options {
        allocation: Allocation::InPlace,
        ..Options::of(System::Off)
    };
    let outcome = egeria_sim::run(machine, &workload, &options).ok()?;
    Some(outcome.operations_s).filter(|rate| *rate > 0.0)
}

fn workload(machine: &Machine, run: &Run, busy: f64) -> Option<Workload> {
    let flows = placed(machine, run)?;
    let all: f64 = flows.iter().map(|flow| flow.2).sum();
    let cores = machine.core_count(machine.nodes.first()?) as f64;
    let threads = (busy * cores / run.head.cpus.max(1) as f64).max(MIN_THREADS);
    let mut workload = Workload {
        name: run.head.fault.clone(),
        seconds: 1.0,
        warm_up_seconds: 0.0,
        files: Vec::new(),
        threads: Vec::new(),
    };
    for (from, to, amount) in flows {
        let count = (threads * amount / all).round() as u64;
        if count == 0 {
            continue;
        }
        let name = format!("{} to {}", from.0, to.0);
        workload.files.push(FileGroup {
            name: name.clone(),
            count,
            bytes: BYTES,
            node: Some(to),
            medium: MediumKind::Memory,
            ..FileGroup::default()
        });
        workload.threads.push(ThreadGroup {
            files: name.clone(),
            name,
            count,
            start_node: Some(from),
            pinned: true,
            phases: vec![accesses()],
            ..ThreadGroup::default()
        });
    }
    (!workload.threads.is_empty()).then_some(workload)
}

/// Each access waits for the one before, as in trees and tables; one of five writes.
fn accesses() -> Phase {
    Phase {
        read_share: 0.8,
        request_bytes: 256,
        pattern: Pattern::Random,
        ..Phase::default()
    }
}

/// The flows between the machine's nodes. Those of a node without CPUs, where the machine has none, are left out; `None` if that is most.
fn placed(machine: &Machine, run: &Run) -> Option<Vec<(NodeId, NodeId, f64)>> {
    let flows = summed(run);
    let all: f64 = flows.values().sum();
    let of_machine = |((from, to), amount): ((usize, usize), f64)| {
        Some((place(machine, run, from)?, place(machine, run, to)?, amount))
    };
    let placed: Vec<_> = flows.into_iter().filter_map(of_machine).collect();
    let kept: f64 = placed.iter().map(|flow| flow.2).sum();
    (kept > all / 2.0).then_some(placed)
}

fn summed(run: &Run) -> BTreeMap<(usize, usize), f64> {
    let mut sums = BTreeMap::new();
    for (from, to, amount) in run.end().iter().flat_map(|sample| &sample.flows) {
        *sums.entry((*from, *to)).or_default() += amount;
    }
    sums
}

/// The machine's node for one of the guest's, whose last has no CPUs.
fn place(machine: &Machine, run: &Run, node: usize) -> Option<NodeId> {
    let id = NodeId(u16::try_from(node).ok()?);
    let found = machine.node(id)?;
    let is_far = machine.core_count(found) == 0;
    (is_far == (node >= run.head.nodes)).then_some(id)
}
