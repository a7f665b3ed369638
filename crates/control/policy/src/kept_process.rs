//! Why a process that uses memory heavily is left as it is.

use std::fmt;

use egeria_facts::ProcessKey;
use egeria_machine::{NodeId, format_bytes};
use serde::{Deserialize, Serialize};

/// A process that is left as it is in this window, and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KeptProcess {
    pub process: ProcessKey,
    /// Part of its accesses that cross nodes.
    pub remote_share: f64,
    /// Its accesses to memory, per second.
    pub accesses_s: f64,
    pub because: ProcessKept,
}

/// Why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ProcessKept {
    /// Its accesses are local, but for a small part.
    Local,
    /// Several nodes use the same memory, and it lies on these in good proportion.
    Shared,
    /// Its owner bound its threads, and they access what its other threads use as well, or what cannot move.
    Bound,
    /// Memory would come, but its new node has no room for it.
    NoRoom {
        node: NodeId,
        needed_bytes: u64,
        free_bytes: u64,
    },
    /// Another place is expected to make it faster by this part, which is too little, or does not repay the move in time.
    CheaperToStay { gain: f64, cost_ns: u64 },
    /// Nothing says which of its threads use which part of its memory: no other place is known to be better.
    AccessorsUnknown,
    /// The same, and the kernel's NUMA balancing is on, which sees it and brings the memory.
    LeftToKernel,
    /// Its owner bound or interleaved most of the memory that it uses.
    Fixed,
    /// A placement is being judged, and nothing else changes until that is over.
    OnTrial,
    /// It has spent what it may spend on moves.
    OverBudget,
    /// Its memory is arriving.
    Arriving { left_bytes: u64 },
    /// The last move of it brought too little.
    Resting,
}

impl fmt::Display for KeptProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.remote_share * 100.0;
        write!(formatter, "{} stays as it is, ", self.process)?;
        write!(
            formatter,
            "{percent:.0} % of its accesses cross nodes: {}",
            self.because
        )
    }
}

impl fmt::Display for ProcessKept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessKept::Local => formatter.write_str("its memory is where its threads run"),
            ProcessKept::Shared => {
                formatter.write_str("threads of several nodes share its memory, and it is spread over them")
            }
            ProcessKept::Bound => formatter.write_str(
                "its owner bound its threads, and memory that would move is used by others or cannot move",
            ),
            ProcessKept::NoRoom {
                node,
                needed_bytes,
                free_bytes,
            } => write!(
                formatter,
                "node {} has {} of memory to give, and {} would come",
                node.0,
                format_bytes(*free_bytes),
                format_bytes(*needed_bytes)
            ),
            ProcessKept::CheaperToStay { gain, cost_ns } => write!(
                formatter,
                "another place would make it {:.1} % faster and cost {:.2} s",
                gain * 100.0,
                *cost_ns as f64 / 1e9
            ),
            ProcessKept::AccessorsUnknown => formatter.write_str(
                "its threads run on several nodes, and it is not known which of them use which memory; the kernel sees it, and \
                 brings the memory: sysctl -w kernel.numa_balancing=1",
            ),
            ProcessKept::LeftToKernel => formatter.write_str(
                "its threads or its memory need several nodes, and only the kernel sees which thread uses which memory: its \
                 NUMA balancing is on and brings them together",
            ),
            ProcessKept::Fixed => {
                formatter.write_str("its owner bound or interleaved the memory that it uses, which therefore does not move")
            }
            ProcessKept::OnTrial => {
                formatter.write_str("the last placement is being judged by what programs get done")
            }
            ProcessKept::OverBudget => {
                formatter.write_str("it has spent what it may spend on moves; the budget grows while it runs")
            }
            ProcessKept::Arriving { left_bytes } => {
                write!(formatter, "{} of its memory are arriving", format_bytes(*left_bytes))
            }
            ProcessKept::Resting => formatter.write_str("its last move brought too little; it rests"),
        }
    }
}
