//! The hardware of a node without its CPUs: memories, the controllers with their shared queues, the cache.
//!
//! A real machine's file says it to be modelled, not to be emulated. Bandwidths and latencies mean what they mean for
//! an emulated node ([`crate::types::emulated`]); the figures of one memory are for all its modules together.
//!
//! **Queues.** Memories behind one controller share its queue of [`Controller::queue_lines`] cache lines. Requests of
//! slow memory that fill it hold up the fast ones behind them (PATS §III-B5). How many lines a thread keeps on their
//! way is [`Memory::lines_in_flight`].

use serde::{Deserialize, Serialize};

use crate::types::access::AccessKind;
use crate::types::medium::{Medium, Side, points};

/// Most memories of a node.
pub const MAX_MEMORIES: usize = 8;
/// Bytes of a cache line, which is what controllers move.
pub const LINE_BYTES: u64 = 64;

/// The hardware of a node without its CPUs, as far as it is known. A machine read from sysfs has none of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Hardware {
    /// The cache that the node's cores share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// The node's memories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memories: Vec<Memory>,
    /// Memory controllers with known queues.
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
    pub bytes: u64,
    /// Time to the first byte, ns.
    pub latency_ns: f64,
    /// What one thread reads from it, bytes/s.
    pub read_bytes_s: f64,
    /// Parts that it consists of, each of which only some of the cores see (AMD's core complexes); `bytes` are of all.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub parts: u32,
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

impl MemoryKind {
    /// As machine files write it.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::Dram => "dram",
            MemoryKind::Persistent => "persistent",
            MemoryKind::Expander => "expander",
        }
    }
}

/// One memory of a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub kind: MemoryKind,
    /// The controller it stands behind.
    #[serde(default)]
    pub controller: u32,
    /// DIMMs (or devices) that share the load.
    #[serde(default = "one")]
    pub modules: u32,
    /// Size, bytes; 0 when unknown.
    #[serde(default, skip_serializing_if = "crate::types::medium::is_zero")]
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
    /// An undisturbed access from another node takes this many times as long, in addition to what links add; >= 1.
    #[serde(default = "whole")]
    pub remote_latency_factor: f64,
    /// Share of the read bandwidth left for accesses from other nodes, in (0, 1].
    #[serde(default = "whole")]
    pub remote_read_bandwidth_factor: f64,
    /// Share of the write bandwidth left for accesses from other nodes, in (0, 1].
    #[serde(default = "whole")]
    pub remote_write_bandwidth_factor: f64,
    /// Share of `read_bytes_s` left with that number of threads at once: (threads, factor), ascending; never falls
    /// when empty.
    #[serde(default, deserialize_with = "points")]
    pub read_curve: Vec<(u32, f64)>,
    /// Share of `write_bytes_s` left with that number of threads at once: (threads, factor), ascending; never falls
    /// when empty.
    #[serde(default, deserialize_with = "points")]
    pub write_curve: Vec<(u32, f64)>,
    /// What the medium moves at least for an access at a random place, bytes (256 in Optane: PATS §III-B2).
    #[serde(default = "line")]
    pub granularity_bytes: u64,
    /// Lines written to the medium for its coherence directory per line that another node reads (OdinFS slides,
    /// "NUMA PM impedes performance").
    #[serde(default, skip_serializing_if = "crate::types::medium::is_zero")]
    pub directory_write_share: f64,
    /// Time to the first byte of a read that follows another, ns: prefetchers and the medium's buffer have begun
    /// before. `read_latency_ns` when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequential_read_latency_ns: Option<f64>,
    /// Replaces `remote_latency_factor` for reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_read_latency_factor: Option<f64>,
    /// Replaces `remote_latency_factor` for writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote_write_latency_factor: Option<f64>,
    /// How its modules are interleaved; accesses at random meet at some of them while others idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interleave: Option<Interleave>,
    /// What is left of the bandwidth while reads and writes meet: (share of the bytes that are written, factor),
    /// ascending; of four threads or more, nothing is lost with one. Above 1 where each way has wires of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix_curve: Vec<[f64; 2]>,
    /// The `mix_curve` of accesses from other nodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remote_mix_curve: Vec<[f64; 2]>,
    /// Cache lines of reads that one thread has on their way when none waits for another and all are small;
    /// [`Memory::lines_in_flight`] when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_lines_at_once: Option<u32>,
    /// Cache lines of writes that one thread has on their way when none waits for another and all are small.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_lines_at_once: Option<u32>,
    /// Cache lines that one reading thread keeps on their way; [`Memory::lines_in_flight`] when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_lines_in_flight: Option<u32>,
    /// Cache lines that one writing thread keeps on their way; [`Memory::lines_in_flight`] when missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_lines_in_flight: Option<u32>,
}

/// How the modules of a memory are interleaved.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interleave {
    /// What lies on one module before the next has its turn, bytes.
    pub bytes: u64,
    /// Bytes that one thread reads at once when none of its accesses waits for another.
    pub read_ahead_bytes: u64,
    /// Bytes that one thread writes at once when none of its accesses waits for another: stores wait in buffers.
    pub write_ahead_bytes: u64,
    /// Writes of one thread that are on their way at once at least, however long.
    #[serde(default = "one")]
    pub write_ahead_accesses: u32,
}

impl Memory {
    pub fn medium(&self) -> Medium<'_> {
        Medium {
            read: Side {
                bytes_s: self.read_bytes_s,
                stream_bytes_s: self.read_stream_bytes_s,
                latency_ns: self.read_latency_ns,
                remote_bandwidth_factor: self.remote_read_bandwidth_factor,
                remote_latency_factor: self
                    .remote_read_latency_factor
                    .unwrap_or(self.remote_latency_factor),
                curve: &self.read_curve,
            },
            write: Side {
                bytes_s: self.write_bytes_s,
                stream_bytes_s: self.write_stream_bytes_s,
                latency_ns: self.write_latency_ns,
                remote_bandwidth_factor: self.remote_write_bandwidth_factor,
                remote_latency_factor: self
                    .remote_write_latency_factor
                    .unwrap_or(self.remote_latency_factor),
                curve: &self.write_curve,
            },
            mix_curve: &self.mix_curve,
            remote_mix_curve: &self.remote_mix_curve,
            directory_write_share: self.directory_write_share,
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

impl Memory {
    /// Cache lines that one thread has on their way when its accesses are small and none waits for another.
    pub fn lines_at_once(&self, kind: AccessKind) -> u32 {
        let own = match kind {
            AccessKind::Read => self.read_lines_at_once,
            AccessKind::Write => self.write_lines_at_once,
        };
        own.unwrap_or_else(|| self.lines_in_flight(kind))
    }

    /// Share of its bandwidth that accesses of `bytes` at random places get, with this number of threads. The rest is
    /// lost because threads wait at busy modules. It is `N / (N + M - 1)` for `N` accesses at `M` equal modules. A
    /// long access passes over all modules in turn, so only its start is random.
    pub fn balance(&self, kind: AccessKind, bytes: u64, threads: f64, at_once: bool) -> f64 {
        let Some(interleave) = self.interleave.filter(|_| self.modules > 1) else {
            return 1.0;
        };
        let (bytes, modules) = (bytes as f64, f64::from(self.modules));
        let (ahead, least) = match kind {
            AccessKind::Read => (interleave.read_ahead_bytes, 1),
            AccessKind::Write => (
                interleave.write_ahead_bytes,
                interleave.write_ahead_accesses,
            ),
        };
        let each = if at_once {
            (ahead as f64 / bytes).max(f64::from(least))
        } else {
            1.0
        };
        let accesses = threads.max(1.0) * each;
        let met = accesses / (accesses + modules - 1.0);
        let by_chance = 1.0 / (1.0 + bytes / (modules * interleave.bytes as f64));
        1.0 - (1.0 - met) * by_chance
    }
}

fn one() -> u32 {
    1
}

fn is_one(parts: &u32) -> bool {
    *parts == 1
}

fn whole() -> f64 {
    1.0
}

fn line() -> u64 {
    LINE_BYTES
}
