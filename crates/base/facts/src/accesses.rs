//! Accesses to memory, per process and node.

use std::fmt;

use egeria_machine::{Machine, NodeId};
use serde::{Deserialize, Serialize};

/// A process, for as long as the machine runs.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize,
)]
pub struct ProcessKey {
    /// The kernel's process id.
    pub process_id: u32,
    /// When it began, in the clock ticks of `/proc/PID/stat`: ids are reused.
    pub start_ticks: u64,
}

impl fmt::Display for ProcessKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "process {}", self.process_id)
    }
}

/// Accesses in a stretch of time, per process and node. A page of facts like `Window`, for a policy that
/// looks at memory rather than at files.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct AccessWindow {
    pub number: u64,
    /// When it ended, ns since a moment that is the same for all windows.
    pub end_ns: u64,
    /// The processes; their order does not matter.
    pub processes: Vec<ProcessAccesses>,
}

/// What one process did, and what has been done to it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ProcessAccesses {
    pub process: ProcessKey,
    /// The nodes with threads or memory of it; their order does not matter.
    pub nodes: Vec<NodeAccesses>,
    /// How long it has run, ns (`A_tt`).
    pub running_ns: u64,
    /// How long its memory has been migrated in all, ns (`A_tm`).
    pub migrating_ns: u64,
}

/// One node of a process.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeAccesses {
    pub node: NodeId,
    /// Its threads that run there.
    pub threads: u32,
    /// Whether some of them must stay there: their owner bound them.
    #[serde(default)]
    pub pinned: bool,
    /// Accesses of these threads to the memory of each node (in the machine's order), per second.
    pub accesses_s: Vec<f64>,
    /// Memory of the process that lies there, bytes (`A_mm`).
    pub resident_bytes: u64,
}

/// Why a window is invalid.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccessError {
    /// Two entries for one process.
    #[error("{process} is in the window twice; add its nodes up")]
    ProcessTwice { process: ProcessKey },
    /// Two entries for one node of a process.
    #[error("{process} has node {} twice; add the two up", node.0)]
    NodeTwice { process: ProcessKey, node: NodeId },
    /// A node that the machine does not have.
    #[error("{process} is on node {}, which the machine does not have; use the machine it was seen on", node.0)]
    UnknownNode { process: ProcessKey, node: NodeId },
    /// Accesses that are no rates.
    #[error("{process} on node {} has accesses that are no rates; give at most one finite number, 0 or more, per node", node.0)]
    Accesses { process: ProcessKey, node: NodeId },
}

impl AccessWindow {
    /// Whether the window is valid on this machine.
    ///
    /// # Errors
    /// The first invalid part.
    pub fn validate(&self, machine: &Machine) -> Result<(), AccessError> {
        for (index, facts) in self.processes.iter().enumerate() {
            let process = facts.process;
            let earlier = &self.processes[..index];
            if earlier.iter().any(|other| other.process == process) {
                return Err(AccessError::ProcessTwice { process });
            }
            for (index, each) in facts.nodes.iter().enumerate() {
                let node = each.node;
                if machine.index_of(node).is_none() {
                    return Err(AccessError::UnknownNode { process, node });
                }
                if facts.nodes[..index].iter().any(|other| other.node == node) {
                    return Err(AccessError::NodeTwice { process, node });
                }
                let are_rates = each.accesses_s.iter().all(|rate| is_rate(*rate));
                if !are_rates || each.accesses_s.len() > machine.nodes.len() {
                    return Err(AccessError::Accesses { process, node });
                }
            }
        }
        Ok(())
    }
}

fn is_rate(rate: f64) -> bool {
    rate.is_finite() && rate >= 0.0
}

impl NodeAccesses {
    /// Accesses to the memory at this position per second; 0 for an invalid rate.
    pub fn rate_to(&self, memory: usize) -> f64 {
        let rate = self.accesses_s.get(memory).copied().unwrap_or_default();
        if is_rate(rate) { rate } else { 0.0 }
    }
}
