//! Which programs are bounded, and why.

use egeria_facts::ProcessKey;
use egeria_machine::NodeId;
use serde::{Deserialize, Serialize};

/// The bandwidth that the CPU gives to programs that do not ask for admission.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MbaPlan {
    /// No program is bounded.
    Off { because: UnboundBecause },
    /// Programs are bounded.
    On {
        /// The processes; ascending.
        processes: Vec<ProcessKey>,
        /// What their threads on each node may use; ascending by node.
        shares: Vec<Share>,
        because: BoundBecause,
    },
}

/// What threads of bounded programs on one node may use.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Share {
    /// The node that they run on.
    pub node: NodeId,
    /// The share of their bandwidth, above 0 and below 1.
    pub share: f64,
    /// What all of them are expected to move then, bytes/s.
    pub bytes_s: f64,
}

/// The memory that is bounded most.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct BoundBecause {
    /// The node of the memory.
    pub node: NodeId,
    /// Threads at it without bounds.
    pub threads: f64,
    /// How many it bears by its curve.
    pub bears: u32,
    /// Its traffic, bytes/s.
    pub traffic_bytes_s: f64,
    /// Its traffic with as many threads as it bears, bytes/s.
    pub expected_bytes_s: f64,
}

/// Why no program is bounded.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UnboundBecause {
    /// No memory of programs gives less to many threads than to few, as far as it is known.
    NoCurve,
    /// Hardware does not count the traffic of these memories.
    NotCounted,
    /// No memory is used by more threads than it bears, or the traffic is small.
    Quiet,
    /// Threads that ask for admission are too many by themselves: they are bounded first.
    OthersFirst {
        /// The node of the memory.
        node: NodeId,
    },
    /// It would help, but the settings do not allow it.
    NotAllowed { memory: BoundBecause },
    /// It was asked for and would help, but nothing here carries it out.
    NoActuator { memory: BoundBecause },
    /// It brought less than half of what was expected, and is not repeated for a while.
    BroughtTooLittle,
}

impl Default for MbaPlan {
    fn default() -> MbaPlan {
        MbaPlan::Off {
            because: UnboundBecause::Quiet,
        }
    }
}

impl MbaPlan {
    /// Whether the same programs have the same shares, even if the reason differs.
    pub(crate) fn is_like(&self, other: &MbaPlan) -> bool {
        let bounds = |plan: &MbaPlan| match plan {
            MbaPlan::Off { .. } => None,
            MbaPlan::On {
                processes, shares, ..
            } => Some((processes.clone(), shares.clone())),
        };
        bounds(self) == bounds(other)
    }

    /// Why nothing is bounded although a memory has too many threads; `None` if it has not, or something is bounded.
    pub fn unmet(&self) -> Option<UnboundBecause> {
        let MbaPlan::Off { because } = self else {
            return None;
        };
        let is_unmet = matches!(
            because,
            UnboundBecause::OthersFirst { .. }
                | UnboundBecause::NotAllowed { .. }
                | UnboundBecause::NoActuator { .. }
                | UnboundBecause::BroughtTooLittle
        );
        is_unmet.then_some(*because)
    }
}
