//! Numbers of nodes and CPUs, and their bounds.

use serde::{Deserialize, Serialize};

/// Most nodes a machine may have.
pub const MAX_NODES: usize = 64;

/// CPU numbers are below this (the largest `NR_CPUS` a kernel is built with).
pub const MAX_CPUS: usize = 8192;

/// The kernel's number of a NUMA node, or the declared number of an emulated one.
///
/// Numbers may have gaps; matrices are indexed by position, see [`crate::Machine::index_of`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u16);

/// The kernel's number of a logical CPU.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CpuId(pub u16);
