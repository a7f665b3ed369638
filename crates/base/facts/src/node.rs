//! What is known about one node.

use egeria_machine::NodeId;
use serde::{Deserialize, Serialize};

/// The traffic through one node in the window, of all programs.
///
/// If the hardware does not count it, the source sums its threads or leaves 0: a policy takes the larger of this and
/// the threads' sum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NodeFacts {
    pub node: NodeId,
    /// Whether new data can be written there (the volume has a pool on the node).
    pub has_pool: bool,
    /// Bytes read from its pool or device.
    pub read_bytes: u64,
    /// Bytes written to its pool or device.
    pub written_bytes: u64,
    /// Time its CPUs were busy, summed over them, ns.
    pub busy_ns: u64,
}

impl NodeFacts {
    /// A node with a pool, without any activity.
    pub fn idle(node: NodeId) -> NodeFacts {
        NodeFacts {
            node,
            has_pool: true,
            read_bytes: 0,
            written_bytes: 0,
            busy_ns: 0,
        }
    }
}
