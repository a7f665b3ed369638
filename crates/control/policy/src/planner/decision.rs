//! The planner's decision.

use egeria_facts::FileKey;
use egeria_machine::NodeId;
use serde::{Deserialize, Serialize};

use super::availability::Unavailable;
use crate::mba::MbaPlan;
use crate::{Expectation, Plan, Subject, asymsched, pats};

/// Everything that should be done about one window, each step with its reason. Every step can be written as one line.
///
/// A thread is ordered to move at most once: by `threads` or by `placement`, never by both.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// Which single threads go where, and why.
    pub threads: Plan,
    /// Which processes leave which nodes with all their threads there, and what their memory does.
    pub placement: asymsched::PlacementPlan,
    /// How many threads may be at the persistent memory of nodes of [`super::Facts::media`]; ascending by node. Other
    /// nodes have no limit, and threads need no admission there.
    pub limits: Vec<Limit>,
    /// Which accesses are delegated.
    pub delegation: DelegationPlan,
    /// Which programs that do not ask for admission are bounded.
    #[serde(default)]
    pub mba: MbaPlan,
    /// Which files go where, the most worthwhile first; each file at most once.
    pub relocations: Vec<RelocationStep>,
    /// Stages that the settings ask for, and that are off because no actuator takes their actions.
    #[serde(default)]
    pub unavailable: Vec<Unavailable>,
    /// Actions that are not done now, because they brought less than half of what was expected (stage `feedback`).
    #[serde(default)]
    pub resting: Vec<Resting>,
}

/// An action that is not repeated for a while, because it brought less than half of what was expected.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Resting {
    /// The subject of the action.
    pub subject: Subject,
    /// The last expectation.
    pub expected: Expectation,
    /// The last measured result.
    pub measured: f64,
    /// Windows until it may be done again.
    pub windows: u32,
}

impl Decision {
    /// An empty decision: everything stays as it is.
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
            mba: MbaPlan::default(),
            relocations: Vec::new(),
            unavailable: Vec::new(),
            resting: Vec::new(),
        }
    }
}

impl DelegationPlan {
    /// Whether the same accesses are delegated, even if the reason differs.
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
    /// Removes the increase of PATS' limit that idle DRAM allowed.
    pub(super) fn lower(&mut self) {
        if self.bears.take().is_some() {
            self.threads = self.decision.limit;
        }
    }
}

/// Which accesses to persistent memory are delegated (OdinFS); shorter ones are direct.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DelegationPlan {
    Off {
        because: DirectBecause,
    },
    On {
        /// New data is spread over the nodes in pieces of this size, bytes.
        stripe_bytes: u64,
        /// Reads of this size and more are delegated, bytes.
        min_read_bytes: u64,
        /// Writes of this size and more are delegated, bytes.
        min_write_bytes: u64,
        /// Threads that access persistent memory for others, per node that has any.
        delegates_per_node: u32,
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
        node: NodeId,
        /// The most that were at it or waited for it.
        demand: u32,
        /// How many it bears.
        bears: u32,
    },
    /// A large share of the bytes goes to other nodes, even after moves of threads.
    Remote {
        /// Share of the bytes that would, after this plan, 0 to 1.
        remote_share: f64,
        /// The share from which accesses are delegated.
        limit: f64,
    },
    /// Accesses are long, and delegation is being tried, or it paid when it was tried.
    Long {
        /// A node with such accesses.
        node: NodeId,
        /// Their mean length, bytes.
        mean_bytes: f64,
    },
    /// It was on, and was last wanted too short a time ago to change.
    Rests {
        /// Windows since it was last wanted.
        windows: u32,
    },
}

/// A step for a file's data, with its cost and gain.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RelocationStep {
    pub file: FileKey,
    pub action: Relocate,
    /// Bytes to copy.
    pub bytes: u64,
    /// The rate of the copy, bytes/s; 0 if nothing is copied.
    pub bytes_s: f64,
    /// The charge to the budget of each process that uses the file, ns: the time that copying takes from the memories
    /// and links, as far as they are in use.
    pub cost_ns: u64,
    /// What threads that wait for these memories and links lose: thread seconds, all together.
    pub loss_thread_s: f64,
    /// What readers gain: seconds of threads per second, all together.
    pub gain_threads: f64,
    /// It must be repaid within this time, ns.
    pub horizon_ns: u64,
    pub why: RelocationReason,
}

/// An action on a file's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Relocate {
    /// The part of it on one node goes to another.
    Move { from: NodeId, to: NodeId },
    /// Another node gets a read-only copy of all of it; threads nearer to that node read the copy.
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
        node: NodeId,
        /// The share in use after the moves of threads: the larger of two. One is `BW_N` (NThread Eq. 1) as a part of
        /// its maximum. The other is the time in use at its bandwidth for that number of threads.
        used_share: f64,
        /// How many times as long a read takes there as undisturbed, at most.
        stretch: f64,
        /// The factor after this step.
        stretch_after: f64,
    },
    /// It is read mostly from other nodes, even after moves of threads.
    RemoteReads {
        /// Share of its reads that are remote, 0 to 1.
        remote_share: f64,
        /// Its remote reads, bytes/s.
        remote_bytes_s: f64,
    },
    /// It is hardly used and makes room for another, on a node without CPUs.
    MakesRoom {
        /// The file that needs the room.
        wanted: FileKey,
        /// Reads and writes of this file, bytes/s.
        used_bytes_s: f64,
    },
    /// It was written, so copies are out of date.
    Written {
        /// How much was written, bytes.
        written_bytes: u64,
    },
    /// Threads get less since it was moved or copied: the step is undone.
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
