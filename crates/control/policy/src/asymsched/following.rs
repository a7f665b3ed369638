//! Memory on its way behind threads that moved.

use egeria_machine::NodeId;
use serde::{Deserialize, Serialize};

/// Memory on its way behind threads that moved.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Following {
    /// The end of the window in which they moved, ns.
    pub since_ns: u64,
    /// The nodes they left, and where each node's went; ascending.
    pub pairs: Vec<(NodeId, NodeId)>,
}
