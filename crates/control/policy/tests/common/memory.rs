//! Memory of processes that moves as AsymSched says, and the time that takes.

use egeria_facts::{NodeAccesses, ProcessAccesses};
use egeria_machine::NodeId;
use egeria_policy::asymsched::{MemoryAction, PlacementPlan, Settings};

fn cost_ns(bytes: u64, settings: &Settings) -> u64 {
    (bytes as f64 * settings.cost_s_per_gb).ceil() as u64
}

fn entry(facts: &mut ProcessAccesses, node: NodeId) -> &mut NodeAccesses {
    let found = facts.nodes.iter().position(|each| each.node == node);
    let index = found.unwrap_or_else(|| {
        facts.nodes.push(NodeAccesses {
            node,
            threads: 0,
            pinned: false,
            accesses_s: Vec::new(),
            resident_bytes: 0,
        });
        facts.nodes.len() - 1
    });
    &mut facts.nodes[index]
}

/// Part of the memory on a node goes to another, and the time that takes is spent.
fn copy(facts: &mut ProcessAccesses, (from, to): (NodeId, NodeId), part: f64, settings: &Settings) {
    let resident = &mut entry(facts, from).resident_bytes;
    let bytes = (*resident as f64 * part) as u64;
    *resident -= bytes;
    entry(facts, to).resident_bytes += bytes;
    facts.migrating_ns += cost_ns(bytes, settings);
}

/// This number of bytes goes, as far as the budget has it.
fn gather(
    facts: &mut ProcessAccesses,
    (from, to): (NodeId, NodeId),
    (bytes, others_ns): (u64, u64),
    settings: &Settings,
) {
    let allowed_ns = (facts.running_ns as f64 * settings.budget) as u64;
    let left_ns = allowed_ns.saturating_sub(facts.migrating_ns.saturating_add(others_ns));
    let most = (left_ns as f64 / settings.cost_s_per_gb) as u64;
    let resident = entry(facts, from).resident_bytes;
    let part = bytes.min(most).min(resident) as f64 / resident.max(1) as f64;
    copy(facts, (from, to), part, settings);
}

/// Threads and memory do as planned; of memory that follows some does in the second after.
pub fn obey(facts: &mut ProcessAccesses, plan: &PlacementPlan, part: f64, settings: &Settings) {
    let process = facts.process;
    for step in plan.memory.iter().filter(|step| step.process == process) {
        match &step.action {
            MemoryAction::Full { copies, .. } => copies
                .iter()
                .for_each(|(from, to, _)| copy(facts, (*from, *to), 1.0, settings)),
            MemoryAction::Gather {
                copies, others_ns, ..
            } => {
                for (from, to, bytes) in copies {
                    gather(facts, (*from, *to), (*bytes, *others_ns), settings);
                }
            }
            _ => {}
        }
    }
    let own: Vec<_> = plan
        .moves
        .iter()
        .filter(|step| step.process == process)
        .collect();
    own.iter()
        .for_each(|step| entry(facts, step.from).threads -= step.threads);
    own.iter()
        .for_each(|step| entry(facts, step.to).threads += step.threads);
    for (_, following) in plan.following.iter().filter(|(other, _)| *other == process) {
        for pair in &following.pairs {
            copy(facts, *pair, part, settings);
        }
    }
}
