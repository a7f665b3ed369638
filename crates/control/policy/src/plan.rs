//! What a policy answers.

use std::collections::HashMap;
use std::fmt;

use egeria_facts::ThreadKey;
use egeria_machine::NodeId;
use serde::{Deserialize, Serialize};

use crate::{Contention, KeptBecause, Reason};

/// What should be done about one window, and what it was decided on.
///
/// All lists about threads are ascending by thread, those about nodes in the machine's order.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The window's number.
    pub window: u64,
    /// What to do: each thread at most once.
    pub moves: Vec<Move>,
    /// Threads that stay although something speaks for another node.
    pub kept: Vec<Kept>,
    /// Threads that this plan leaves away from their data because of contention.
    pub displaced: Vec<Displaced>,
    /// Initial targets: where each thread's data is, if on one node.
    pub targets: Vec<Target>,
    /// Node loads as measured, every thread where it is.
    pub measured: Vec<NodeLoad>,
    /// Node loads if every thread were with its data. Contention is judged by these, with the
    /// threads that an earlier plan displaced left where they are.
    pub local: Vec<NodeLoad>,
    /// Node loads expected after the moves, at the rates measured.
    pub expected: Vec<NodeLoad>,
    /// The node that is, or would be, contended for persistent memory, if looked for and found.
    pub pm_contended: Option<NodeId>,
    /// The node that is, or would be, contended for CPUs, if looked for and found.
    pub cpu_contended: Option<NodeId>,
    /// Threads left alone because they read and wrote too little.
    pub quiet_threads: usize,
    /// What limits this plan.
    pub notes: Vec<Note>,
}

impl Plan {
    /// The threads that this plan leaves away from their data, and the node that is on.
    pub(crate) fn displaced_homes(&self) -> HashMap<ThreadKey, NodeId> {
        let homes = self.displaced.iter().map(|each| (each.thread, each.home));
        homes.collect()
    }

    pub fn move_of(&self, thread: ThreadKey) -> Option<&Move> {
        let index = self.moves.binary_search_by_key(&thread, |each| each.thread);
        self.moves.get(index.ok()?)
    }

    /// Why one thread stays where it is, when something speaks for another node.
    pub fn kept(&self, thread: ThreadKey) -> Option<&Kept> {
        let index = self.kept.binary_search_by_key(&thread, |each| each.thread);
        self.kept.get(index.ok()?)
    }
}

/// One thread goes to another node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Move {
    pub thread: ThreadKey,
    pub from: NodeId,
    /// Where it should run.
    pub to: NodeId,
    pub reason: Reason,
}

impl fmt::Display for Move {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.from.0, self.to.0);
        write!(
            formatter,
            "{} goes from node {from} to node {to}",
            self.thread
        )?;
        write!(formatter, ": {}", self.reason)
    }
}

/// One thread stays although something speaks for another node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Kept {
    pub thread: ThreadKey,
    /// Where it is and stays.
    pub node: NodeId,
    /// Where its data would have it; `None` when its data is on no one node.
    pub wanted: Option<NodeId>,
    pub because: KeptBecause,
}

impl fmt::Display for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} stays on node {}", self.thread, self.node.0)?;
        write!(formatter, ": {}", self.because)
    }
}

/// One thread is left away from its data because of contention.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Displaced {
    pub thread: ThreadKey,
    /// The node its data is on; for a thread whose data is on no one node, the one it left.
    pub home: NodeId,
    /// What it makes room for there; `None` when it paused and was not looked at.
    pub contention: Option<Contention>,
}

/// The initial target of a thread (NThread §III-A).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Target {
    pub thread: ThreadKey,
    /// The node it reads from most.
    pub node: NodeId,
    /// What it reads from there, bytes/s.
    pub read_bytes_s: f64,
    /// What it reads from the next best node, bytes/s.
    pub next_bytes_s: f64,
}

/// What goes through a node.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct NodeLoad {
    pub node: NodeId,
    /// Threads of the window on it.
    pub threads: u32,
    /// Read from its persistent memory, bytes/s (`BWr_N`).
    pub read_bytes_s: f64,
    /// Written to its persistent memory, bytes/s (`BWw_N`).
    pub written_bytes_s: f64,
    /// Both, reads weighted (`BW_N`, NThread Eq. 1), bytes/s.
    pub pm_bytes_s: f64,
    /// What `pm_bytes_s` can be at most; `None` when unknown.
    pub pm_maximum_bytes_s: Option<f64>,
    /// Share of its CPUs in use (`CPU_N`, NThread Eq. 6); above 1 when threads that ran elsewhere
    /// are counted here. 0 on a node without CPUs.
    pub cpu_share: f64,
}

/// What limits a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Note {
    /// The speed of the node's persistent memory is not known.
    PmMaximumUnknown { node: NodeId },
    /// The window holds a thread on a node that the machine does not have.
    ThreadNowhere {
        thread: ThreadKey,
        /// Where it is said to be.
        node: NodeId,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::PmMaximumUnknown { node } => write!(
                formatter,
                "contention for persistent memory is not looked for on node {}: its bandwidth is \
                 unknown; run `egeria machine calibrate --pool {}:DIRECTORY --output \
                 /etc/egeria/machine.toml` once, or set dimm_read_bytes_s, dimm_write_bytes_s and dimms",
                node.0, node.0
            ),
            Note::ThreadNowhere { thread, node } => write!(
                formatter,
                "{thread} is left alone: node {} is not one of the machine's",
                node.0
            ),
        }
    }
}
