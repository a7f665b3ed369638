//! What the planner answers.

use egeria_facts::FileKey;
use egeria_machine::NodeId;
use serde::{Deserialize, Serialize};

use super::availability::Unavailable;
use crate::{Expectation, Plan, Subject, asymsched, pats};

/// All that should be done about one window, each step with its reason; every step can be written as one line.
///
/// A thread is ordered about at most once: by `threads` or by `placement`, never by both.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// Which single threads go where, and why.
    pub threads: Plan,
    /// Which processes leave which nodes with all their threads there, and what their memory does.
    pub placement: asymsched::PlacementPlan,
    /// How many threads may be at the persistent memory of nodes of [`super::Facts::media`]; ascending by node. Nodes
    /// that are not named have no limit: there threads need not ask for their turn.
    pub limits: Vec<Limit>,
    /// Which accesses are delegated.
    pub delegation: DelegationPlan,
    /// Which files go where, the most worthwhile first; each file at most once.
    pub relocations: Vec<RelocationStep>,
    /// Stages that the settings ask for, and that are off because no actuator takes their actions.
    #[serde(default)]
    pub unavailable: Vec<Unavailable>,
    /// What is not done now, because it brought less than half of what was expected (stage `feedback`).
    #[serde(default)]
    pub resting: Vec<Resting>,
}

/// What is not done again for a while, because it brought less than half of what was expected.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Resting {
    /// What.
    pub subject: Subject,
    /// What was expected of it last.
    pub expected: Expectation,
    /// What it came to.
    pub measured: f64,
    /// Windows until it may be done again.
    pub windows: u32,
}

impl Decision {
    /// No decision: everything stays as it is.
    pub fn none(window: u64) -> Decision {
        Decision {
            threads: Plan {
                window,
                ..Plan::default()
            },
            placement: asymsched::PlacementPlan::off(window),
            limits: Vec::new(),
            delegation: DelegationPlan::Off {
                because: DirectBecause::Stage,
            },
            relocations: Vec::new(),
            unavailable: Vec::new(),
            resting: Vec::new(),
        }
    }
}

impl DelegationPlan {
    /// Whether the same accesses are delegated, for whatever reason.
    pub(crate) fn is_like(&self, other: &DelegationPlan) -> bool {
        let sizes = |plan: &DelegationPlan| match *plan {
            DelegationPlan::Off { .. } => None,
            DelegationPlan::On {
                stripe_bytes,
                min_read_bytes,
                min_write_bytes,
                delegates_per_node,
                ..
            } => Some((
                stripe_bytes,
                min_read_bytes,
                min_write_bytes,
                delegates_per_node,
            )),
        };
        sizes(self) == sizes(other)
    }
}

/// How many threads may be at a node's persistent memory at once.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Limit {
    /// Which node.
    pub node: NodeId,
    /// How many, from now on; delegates count.
    pub threads: u32,
    /// What PATS says, and why.
    pub decision: pats::Decision,
    /// What the medium itself bears, if that is more than PATS allows. It is then the limit, if DRAM of the node is
    /// idle and so needs no protection (ours).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bears: Option<u32>,
    /// The node's delegates, if there are more of them than PATS allows threads. The limit is then their number,
    /// because a thread that waits for a delegate must not wait for its own admission as well.
    pub delegates: Option<u32>,
}

impl Limit {
    /// Takes back what was added to PATS' limit for DRAM that is idle.
    pub(super) fn lower(&mut self) {
        if self.bears.take().is_some() {
            self.threads = self.decision.limit;
        }
    }
}

/// Which accesses to persistent memory are delegated (OdinFS): what is shorter goes the direct way.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DelegationPlan {
    /// None.
    Off {
        /// Why.
        because: DirectBecause,
    },
    /// Long ones.
    On {
        /// New data is spread over the nodes in pieces of this size, bytes.
        stripe_bytes: u64,
        /// Reads of this size and more are delegated, bytes.
        min_read_bytes: u64,
        /// Writes of this size and more are delegated, bytes.
        min_write_bytes: u64,
        /// Threads that access persistent memory for others, per node that has any.
        delegates_per_node: u32,
        /// Why.
        because: DelegatedBecause,
    },
}

/// Why nothing is delegated.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DirectBecause {
    /// The stage is off.
    Stage,
    /// No node is known to have persistent memory.
    NoMedium,
    /// No file is striped, so there is nothing that delegates could access.
    NothingStriped,
    /// Threads got less with it when it was tried, or it is not its turn to be tried (stage `feedback`).
    DidNotPay,
    /// Threads are near their data and few.
    Quiet {
        /// The node that comes nearest to too many threads.
        node: NodeId,
        /// The most that were at its persistent memory or waited for it.
        demand: u32,
        /// How many it bears.
        bears: u32,
        /// Share of the bytes that would go to other nodes after this plan, 0 to 1.
        remote_share: f64,
    },
}

/// Why long accesses are delegated.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DelegatedBecause {
    /// The setting says always (OdinFS).
    Always,
    /// More threads are at a node's persistent memory than it bears.
    Crowded {
        /// Which node.
        node: NodeId,
        /// The most that were at it or waited for it.
        demand: u32,
        /// How many it bears.
        bears: u32,
    },
    /// Much goes to other nodes, whatever threads do.
    Remote {
        /// Share of the bytes that would, after this plan, 0 to 1.
        remote_share: f64,
        /// From which share on they are delegated.
        limit: f64,
    },
    /// Accesses are long, and it is tried whether that pays, or it did.
    Long {
        /// A node with such accesses.
        node: NodeId,
        /// Their mean length, bytes.
        mean_bytes: f64,
    },
    /// It was on, and too short a time ago to change.
    Rests {
        /// Windows since it was last wanted.
        windows: u32,
    },
}

/// What becomes of a file's data, and what that costs and gains.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RelocationStep {
    /// Which file.
    pub file: FileKey,
    /// What.
    pub action: Relocate,
    /// What is copied, bytes.
    pub bytes: u64,
    /// How fast it may be copied, bytes/s; 0 where nothing is.
    pub bytes_s: f64,
    /// What is charged to the budget of each process that uses the file, ns: the time that copying takes from the
    /// memories and links, as far as they are in use.
    pub cost_ns: u64,
    /// What threads that wait for these memories and links lose: thread seconds, all together.
    pub loss_thread_s: f64,
    /// What readers gain: seconds of threads per second, all together.
    pub gain_threads: f64,
    /// It must be repaid within this time, ns.
    pub horizon_ns: u64,
    /// Why.
    pub why: RelocationReason,
}

/// What becomes of a file's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Relocate {
    /// What of it lies on one node goes to another.
    Move {
        /// Where it is.
        from: NodeId,
        /// Where it goes.
        to: NodeId,
    },
    /// Another node gets a read-only copy of all of it; threads nearer to that read there.
    Replicate {
        /// Where most of it is read from.
        from: NodeId,
        /// Where the copy goes.
        to: NodeId,
    },
    /// A node's copy is given up.
    Drop {
        /// The node of the copy.
        on: NodeId,
    },
}

/// Why a file's data goes somewhere.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RelocationReason {
    /// Reads contend for the persistent memory of the node it is on.
    ReadContention {
        /// Which node.
        node: NodeId,
        /// The share in use after the moves of threads: the larger of two. One is `BW_N` (NThread Eq. 1) as a part of
        /// its maximum. The other is the time in use at its bandwidth for that number of threads.
        used_share: f64,
        /// How many times as long a read takes there as undisturbed, at most.
        stretch: f64,
        /// The same after this step.
        stretch_after: f64,
    },
    /// It is read mostly from other nodes, whatever threads do.
    RemoteReads {
        /// Share of what is read of it, 0 to 1.
        remote_share: f64,
        /// What is read of it so, bytes/s.
        remote_bytes_s: f64,
    },
    /// It is hardly used and makes room for another, on a node without CPUs.
    MakesRoom {
        /// For which file.
        wanted: FileKey,
        /// What is read and written of this one, bytes/s.
        used_bytes_s: f64,
    },
    /// It was written, so copies are out of date.
    Written {
        /// How much was written, bytes.
        written_bytes: u64,
    },
    /// Since it went there, or was copied, threads get less: that is undone.
    BroughtLess {
        /// What all threads get compared with before, in a geometric mean.
        speed: f64,
    },
    /// No thread reads the copy.
    Unread {
        /// The number of windows without a read.
        windows: u32,
    },
}
