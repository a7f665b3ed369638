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
    /// What moving memory took on this machine so far; `None` before the first migration.
    #[serde(default)]
    pub migration_cost: Option<MigrationCost>,
    /// Memory of each node (in the machine's order) that programs could have, bytes: free, or page cache that can be
    /// dropped. Empty where it is not known.
    #[serde(default)]
    pub free_bytes: Vec<u64>,
    /// Whether the kernel's NUMA balancing brings memory to the threads that access it.
    #[serde(default)]
    pub kernel_balances: bool,
}

/// What moving the memory of processes takes, as measured.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MigrationCost {
    /// Time that a gigabyte takes, s/GB, above 0.
    pub s_per_gb: f64,
    /// Bytes of the migrations that it was measured in.
    pub bytes: u64,
    /// The number of these migrations, at least one.
    pub migrations: u32,
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
    /// What it gets done per second, in a unit of its own: instructions as the CPU counts them, operations in the model.
    /// `None` where that is not counted.
    #[serde(default)]
    pub work_s: Option<f64>,
    /// Whether `accesses_s` of its nodes is what their threads were seen to access. Otherwise all threads are taken to
    /// access all of its memory, in proportion to how long they ran. That is no guess while they all run on one node.
    #[serde(default)]
    pub accessors_known: bool,
    /// Its memory in parts, where the source knows who accesses which: the most used first, at most [`MAX_REGIONS`].
    #[serde(default)]
    pub regions: Vec<RegionAccesses>,
}

/// Most regions of a process in one window.
pub const MAX_REGIONS: usize = 4096;

/// A node whose threads make this share of the accesses to some memory is taken to use it alone. Other memory is shared.
pub const UNSHARED_SHARE: f64 = 0.8;

/// Memory of a process that lies together, and the nodes whose threads access it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RegionAccesses {
    /// Its first address.
    pub start: u64,
    /// What of it lies on each node (in the machine's order), bytes.
    pub resident_bytes: Vec<u64>,
    /// Accesses by threads on each node (in the machine's order), per second.
    pub accesses_s: Vec<f64>,
    /// Whether its owner bound it to one node or interleaved it: it does not move.
    #[serde(default)]
    pub is_fixed: bool,
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
    /// Work that is no rate.
    #[error("{process} has work that is no rate; give a finite number, 0 or more")]
    Work { process: ProcessKey },
    /// Too many regions, or regions that are none.
    #[error(
        "{process} has regions that are none; give at most {MAX_REGIONS}, each with at most one entry per node"
    )]
    Regions { process: ProcessKey },
    /// More rooms than nodes.
    #[error("there is room on more nodes than the machine has; use the machine it was seen on")]
    Room,
    /// A cost that cannot have been measured.
    #[error(
        "what moving memory takes is no measurement; give a finite time above 0, and at least one migration"
    )]
    MigrationCost,
}

impl AccessWindow {
    /// Whether the window is valid on this machine.
    ///
    /// # Errors
    /// The first invalid part.
    pub fn validate(&self, machine: &Machine) -> Result<(), AccessError> {
        if self.migration_cost.is_some_and(|cost| !cost.is_valid()) {
            return Err(AccessError::MigrationCost);
        }
        if self.free_bytes.len() > machine.nodes.len() {
            return Err(AccessError::Room);
        }
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
            if facts.work_s.is_some_and(|work_s| !is_rate(work_s)) {
                return Err(AccessError::Work { process });
            }
            let are_regions = facts.regions.iter().all(|region| region.is_valid(machine));
            if !are_regions || facts.regions.len() > MAX_REGIONS {
                return Err(AccessError::Regions { process });
            }
        }
        Ok(())
    }
}

impl MigrationCost {
    /// Whether it can have been measured.
    pub fn is_valid(&self) -> bool {
        self.s_per_gb.is_finite() && self.s_per_gb > 0.0 && self.migrations > 0
    }
}

fn is_rate(rate: f64) -> bool {
    rate.is_finite() && rate >= 0.0
}

impl RegionAccesses {
    fn is_valid(&self, machine: &Machine) -> bool {
        let (nodes, mut rates) = (machine.nodes.len(), self.accesses_s.iter());
        self.accesses_s.len() <= nodes
            && self.resident_bytes.len() <= nodes
            && rates.all(|rate| is_rate(*rate))
    }
}

impl NodeAccesses {
    /// Accesses to the memory at this position per second; 0 for an invalid rate.
    pub fn rate_to(&self, memory: usize) -> f64 {
        let rate = self.accesses_s.get(memory).copied().unwrap_or_default();
        if is_rate(rate) { rate } else { 0.0 }
    }
}
