//! What was measured.

use egeria_machine::{MemoryKind, NamedPath, NodeId};
use serde::Serialize;

/// Everything that was measured on a machine. Bandwidths count each byte once, loaded or stored.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Calibration {
    /// Streams went through so much of each memory, bytes; 0 on an emulated machine.
    pub buffer_bytes: u64,
    /// How often each figure was taken; they are medians.
    pub rounds: u32,
    /// How far the rounds of a figure lie apart, as a share of the figure (0.02: 2 %), the median of all; `None` after one round.
    pub spread: Option<f64>,
    /// How long that took, s; not counted how long it took to get the memory.
    pub measured_s: f64,
    pub memories: Vec<MeasuredMemory>,
    pub streams: Vec<Stream>,
    pub latencies: Vec<Latency>,
    /// Last-level caches.
    pub caches: Vec<CacheFigures>,
    /// What flows between nodes got, two at once; none where nodes are fewer than three or have a single core.
    pub pairs: Vec<Pair>,
    /// Small accesses at random places.
    pub small: Vec<SmallAccesses>,
    /// How long a load waits while others are at another memory of the node.
    pub waits: Vec<Wait>,
    /// What was odd, one line each.
    pub warnings: Vec<String>,
}

/// One memory.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MeasuredMemory {
    pub node: NodeId,
    /// What it was taken for: a node's own memory is DRAM, that of a node without CPUs an expander, a pool persistent.
    pub kind: MemoryKind,
    /// Where a pool is.
    pub path: Option<NamedPath>,
    /// Whether stores reach it without the page cache.
    pub is_direct: bool,
    /// Size of the medium, bytes; 0 when unknown.
    pub bytes: u64,
    /// DIMMs of it, where the kernel or firmware says how many.
    pub modules: Option<u32>,
}

impl MeasuredMemory {
    /// For people. A path may hold control characters.
    pub fn name(&self) -> String {
        let kind = match self.kind {
            MemoryKind::Dram => "DRAM",
            MemoryKind::Persistent => "PM",
            MemoryKind::Expander => "CXL",
        };
        let path = self.path.as_ref();
        let path = path.map(|path| format!(" {path}"));
        format!("node {} {kind}{}", self.node.0, path.unwrap_or_default())
    }
}

/// What threads of one node get from one memory.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Stream {
    pub cpu_node: NodeId,
    /// Position in `memories`.
    pub memory: usize,
    /// How many at once, on a CPU each.
    pub threads: u32,
    /// Loads, bytes/s.
    pub read_bytes_s: f64,
    /// Stores through the caches, bytes/s: each line is loaded before and written back later.
    pub write_bytes_s: f64,
    /// Non-temporal stores, bytes/s.
    pub nontemporal_write_bytes_s: f64,
    /// Half loads, half non-temporal stores, bytes/s of both.
    pub mixed_bytes_s: f64,
}

/// Up to half of the cores of a node, with a thread each, that read the memory of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct NodeFlow {
    pub cpu_node: NodeId,
    /// Position in `memories`.
    pub memory: usize,
    /// How many threads, on a core each.
    pub threads: u32,
}

/// Two flows at once.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Pair {
    pub flows: [NodeFlow; 2],
    pub read_bytes_s: [f64; 2],
}

/// How long one CPU of a node waits for one line.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Latency {
    pub cpu_node: NodeId,
    /// Position in `memories`.
    pub memory: usize,
    /// A load that depends on the one before, ns.
    pub read_ns: f64,
    /// A non-temporal store of a line at a random place, and a fence, ns.
    pub write_ns: f64,
}

/// The last-level cache of a node.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CacheFigures {
    pub node: NodeId,
    /// Size of all its parts, bytes.
    pub bytes: u64,
    /// A load that depends on the one before, ns.
    pub latency_ns: f64,
    /// What one thread loads from it, bytes/s.
    pub read_bytes_s: f64,
}

/// What threads of the nearest node get from a memory by small accesses at random places, of which none waits for another.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SmallAccesses {
    pub cpu_node: NodeId,
    /// Position in `memories`.
    pub memory: usize,
    /// How many at once, on a CPU each.
    pub threads: u32,
    /// Bytes of an access.
    pub bytes: u64,
    /// Loads, bytes/s.
    pub read_bytes_s: f64,
    /// Non-temporal stores, bytes/s.
    pub nontemporal_write_bytes_s: f64,
}

/// One load that depends on the one before, from a memory of a node, while other cores of the node are at another of its
/// memories.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Wait {
    pub cpu_node: NodeId,
    /// The memory that is loaded from: position in `memories`.
    pub memory: usize,
    /// The memory at which the others are: position in `memories`.
    pub beside: usize,
    /// How many of them.
    pub threads: u32,
    /// Whether they store (non-temporal stores); else they load.
    pub is_written: bool,
    pub read_ns: f64,
    /// What the others get, bytes/s.
    pub bytes_s: f64,
}
