//! What stands in a node beside its CPUs: memories, the controllers whose queues they share, the cache.
//!
//! A real machine's file says it to be modelled, not to be emulated. Bandwidths and latencies mean what they mean for
//! an emulated node ([`crate::emulated`]); the figures of one memory are for all its modules together.
//!
//! **Queues.** Memories behind one controller share its queue of [`Controller::queue_lines`] cache lines. Requests of
//! slow memory that fill it hold up the fast ones behind them (PATS §III-B5). How many lines a thread keeps on their
//! way is [`Memory::lines_in_flight`].

use serde::{Deserialize, Serialize};

use crate::access::AccessKind;
use crate::medium::{Medium, Side, points};

/// Most memories of a node.
pub const MAX_MEMORIES: usize = 8;
/// Bytes of a cache line, which is what controllers move.
pub const LINE_BYTES: u64 = 64;

/// What a node has beside CPUs, as far as it is known; a machine read from sysfs says nothing of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Hardware {
    /// The cache that the node's cores share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// The node's memories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<Memory>,
    /// Memory controllers whose queues are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub controllers: Vec<Controller>,
    /// Cache lines on their way to all memories of the node together, whatever controller they stand behind; no
    /// bound when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket_queue_lines: Option<u32>,
}

/// A last-level cache.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// Size, bytes.
    pub bytes: u64,
    /// Time to the first byte, ns.
    pub latency_ns: f64,
    /// What one thread reads from it, bytes/s.
    pub read_bytes_s: f64,
}

/// A memory controller.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Memories of the node name it by this.
    pub id: u32,
    /// Cache lines that its queue holds.
    pub queue_lines: u32,
}

/// Kinds of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryKind {
    /// DRAM on the node's own channels.
    Dram,
    /// Persistent memory on the node's channels.
    Persistent,
    /// Memory behind CXL.
    Expander,
}

/// One memory of a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// What it is.
    pub kind: MemoryKind,
    /// The controller it stands behind.
    #[serde(default)]
    pub controller: u32,
    /// DIMMs (or devices) that share the load.
    #[serde(default = "one")]
    pub modules: u32,
    /// Size, bytes; 0 when unknown.
    #[serde(default, skip_serializing_if = "crate::medium::is_zero")]
    pub bytes: u64,
    /// Read bandwidth of all modules together, bytes/s.
    pub read_bytes_s: f64,
    /// Write bandwidth of all modules together, bytes/s.
    pub write_bytes_s: f64,
    /// What a single thread reads at most, bytes/s.
    pub read_stream_bytes_s: f64,
    /// What a single thread writes at most, bytes/s.
    pub write_stream_bytes_s: f64,
    /// Time to the first byte of a read from the node's own cores, ns.
    pub read_latency_ns: f64,
    /// Time to the first byte of a write from the node's own cores, ns.
    pub write_latency_ns: f64,
    /// An undisturbed access from another node takes this many times as long, beside what links add; >= 1.
    #[serde(default = "whole")]
    pub remote_latency_factor: f64,
    /// Share of the read bandwidth left for accesses from other nodes, in (0, 1].
    #[serde(default = "whole")]
    pub remote_read_bandwidth_factor: f64,
    /// Share of the write bandwidth left for accesses from other nodes, in (0, 1].
    #[serde(default = "whole")]
    pub remote_write_bandwidth_factor: f64,
    /// Share of `read_bytes_s` left with so many threads at once: (threads, factor), ascending; never falls when
    /// empty.
    #[serde(default, deserialize_with = "points")]
    pub read_curve: Vec<(u32, f64)>,
    /// Share of `write_bytes_s` left with so many threads at once: (threads, factor), ascending; never falls when
    /// empty.
    #[serde(default, deserialize_with = "points")]
    pub write_curve: Vec<(u32, f64)>,
    /// What the medium moves at least for an access at a random place, bytes (256 in Optane: PATS §III-B2).
    #[serde(default = "line")]
    pub granularity_bytes: u64,
    /// Lines written to the medium for its coherence directory per line that another node reads (OdinFS slides,
    /// "NUMA PM impedes performance").
    #[serde(default, skip_serializing_if = "crate::medium::is_zero")]
    pub directory_write_share: f64,
    /// Cache lines that one reading thread keeps on their way; [`Memory::lines_in_flight`] when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_lines_in_flight: Option<u32>,
    /// Cache lines that one writing thread keeps on their way; [`Memory::lines_in_flight`] when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_lines_in_flight: Option<u32>,
}

impl Memory {
    /// The medium.
    pub fn medium(&self) -> Medium<'_> {
        Medium {
            read: Side {
                bytes_s: self.read_bytes_s,
                stream_bytes_s: self.read_stream_bytes_s,
                latency_ns: self.read_latency_ns,
                remote_bandwidth_factor: self.remote_read_bandwidth_factor,
                curve: &self.read_curve,
            },
            write: Side {
                bytes_s: self.write_bytes_s,
                stream_bytes_s: self.write_stream_bytes_s,
                latency_ns: self.write_latency_ns,
                remote_bandwidth_factor: self.remote_write_bandwidth_factor,
                curve: &self.write_curve,
            },
            remote_latency_factor: self.remote_latency_factor,
        }
    }

    /// Cache lines that one thread keeps on their way to it. Without a figure of its own: 48 for DRAM and CXL (what
    /// a core's second-level cache tracks while it streams), 16 and 12 for reads and writes of persistent memory.
    /// docs/explanation/model.md derives these from PATS Figs. 3, 5 and 7.
    pub fn lines_in_flight(&self, kind: AccessKind) -> u32 {
        let own = match kind {
            AccessKind::Read => self.read_lines_in_flight,
            AccessKind::Write => self.write_lines_in_flight,
        };
        own.unwrap_or(match (self.kind, kind) {
            (MemoryKind::Dram | MemoryKind::Expander, _) => 48,
            (MemoryKind::Persistent, AccessKind::Read) => 16,
            (MemoryKind::Persistent, AccessKind::Write) => 12,
        })
    }
}

fn one() -> u32 {
    1
}

fn whole() -> f64 {
    1.0
}

fn line() -> u64 {
    LINE_BYTES
}
