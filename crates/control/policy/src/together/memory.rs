//! Orders for the memory of processes.

use egeria_facts::ProcessAccesses;
use egeria_machine::NodeId;

use super::basis::Basis;
use crate::asymsched::{MemoryAction, MemoryStep, TierMove};

/// Stacks and libraries alone are not worth an order; and memory has arrived when no more than this is left, bytes.
pub(super) const SMALL_BYTES: u64 = 1 << 20;

/// The order for memory of a process; `shares` are its remote accesses now and then. The last are whether threads move,
/// too, and the running time of which the budget may be spent in advance.
pub(super) fn gather(
    basis: &Basis<'_>,
    facts: &ProcessAccesses,
    copies: Vec<(NodeId, NodeId, u64)>,
    tier: Option<TierMove>,
    shares: (f64, f64),
    (moves_threads, advance_ns): (bool, u64),
) -> MemoryStep {
    let cost_ns = basis.cost.ns(bytes_of(&copies));
    let pause_ns = if moves_threads {
        basis.thread_move_ns
    } else {
        0
    };
    let others_ns = (basis.others_ns)(facts.process).saturating_add(pause_ns);
    MemoryStep {
        process: facts.process,
        action: MemoryAction::Gather {
            remote_share: shares.0,
            remote_then: shares.1,
            tier,
            copies,
            cost_ns,
            cost: basis.cost,
            others_ns,
            advance_ns,
            wait_ns: basis.wait_ns(facts, advance_ns, others_ns, cost_ns),
        },
    }
}

pub(super) fn bytes_of(copies: &[(NodeId, NodeId, u64)]) -> u64 {
    copies
        .iter()
        .fold(0, |sum, copy| sum.saturating_add(copy.2))
}
