//! Traffic of memories, of all programs, as hardware counted it.

use egeria_machine::{MemoryKind, NodeId};
use serde::{Deserialize, Serialize};

/// What counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficOrigin {
    /// The memory controllers of the node's package.
    MemoryController,
    /// A CXL device.
    CxlDevice,
}

/// Traffic of one memory of a node in the window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemoryTraffic {
    pub node: NodeId,
    pub kind: MemoryKind,
    pub read_bytes_s: f64,
    pub written_bytes_s: f64,
    pub origin: TrafficOrigin,
}
