//! Emulated nodes, and the one definition of how long an access to them takes.
//!
//! All times here are *machine time*: what the declared machine would take. On the host an
//! access lasts [`EmulatedMachine::dilation`] times as long.
//!
//! # The model
//!
//! A node's medium serves one access after another (the media layer keeps a *service clock* per
//! node). An access of `bytes` by one of `threads` concurrent accessors takes
//!
//! ```text
//!   |<--------- latency_ns --------->|<--- service_ns --->|
//!   first byte, and what one thread    the medium is
//!   needs longer than the medium does  occupied: others queue
//! ```
//!
//! ```text
//!   local_capacity = bytes_s(kind) * curve(kind, threads)
//!   alone          = access_latency(kind) + bytes / min(stream_bytes_s(kind), local_capacity)
//!   undisturbed    = alone                    local
//!                  = alone * latency_factor   from another node (at least service_ns)
//!   capacity       = local_capacity * (remote ? bandwidth_factor(kind) : 1)
//!   service_ns     = bytes / capacity
//!   latency_ns     = undisturbed - service_ns
//!   operation      = max(undisturbed, threads * service_ns)
//! ```
//!
//! So distance does two things, as NThread §I measured them: an operation on its own takes
//! `latency_factor` times as long, and a busy medium yields `bandwidth_factor` of its bandwidth.
//!
//! `threads * service_ns` is the pace at which the medium serves `threads` accessors that always
//! come back for more; with constant times the two bounds of this closed queue are exact. A node
//! runs at most `cores` of its own threads at once: with more, ask for `cores` threads and let
//! them take turns. Reads and writes share the medium, each for its own service time: with 6.8
//! and 1.85 GB/s a byte read weighs 0.27 of a byte written, near NThread Eq. 1's weight of 1/3.
//!
//! # The last-level cache
//!
//! A node may declare a last-level cache (LLC), which its threads share (NThread §III-D). Bytes that
//! a read finds in the LLC of the *thread's* node come from there, whatever node's memory they are of,
//! and leave the medium to others; the rest is an access of its own size:
//!
//! ```text
//!   cached_ns = llc_latency_ns + cached / llc_read_bytes_s         all bytes cached
//!             = undisturbed(bytes - cached) + cached / llc_read_bytes_s   some
//! ```
//!
//! What is cached is the media layer's business: reads bring it in, writes (which go past caches)
//! throw it out of every node's LLC.
//!
//! Between two points of a curve the factor is interpolated linearly; before the first and
//! beyond the last point it stays what it is there.

use serde::{Deserialize, Serialize};

use crate::types::access::AccessKind;
use crate::types::medium::{Medium, Side, is_zero, points};
use crate::types::memory::{LINE_BYTES, Memory, MemoryKind};

/// What makes a machine an emulated one.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EmulatedMachine {
    /// Wall time per machine time, 1 to [`MAX_DILATION`].
    pub dilation: f64,
    /// Whether accesses are charged the time the nodes declare; without it the nodes exist
    /// (placement, allocation, counters) and everything runs at the host's own speed.
    pub timing: bool,
    /// One per node, in the order of `Machine::nodes`; none where the nodes' own memories ([`crate::Hardware`]) are
    /// emulated.
    pub nodes: Vec<EmulatedNode>,
    /// Virtual cores of each node where its own memories are emulated; else nothing.
    #[serde(default)]
    pub cores: Vec<u32>,
}

/// What an emulated node declares. Times are machine time, bandwidths are the whole node's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EmulatedNode {
    /// What the medium is; persistent memory where nothing is said.
    #[serde(default = "persistent", skip_serializing_if = "is_persistent")]
    pub kind: MemoryKind,
    /// Virtual cores: how many threads compute or access at once.
    pub cores: u32,
    /// Persistent-memory DIMMs of the node (their bandwidths add up: NThread fn. 1).
    pub dimms: u32,
    /// Read bandwidth of all DIMMs of the node together, bytes/s.
    pub read_bytes_s: f64,
    /// Write bandwidth of all DIMMs of the node together, bytes/s.
    pub write_bytes_s: f64,
    /// What a single thread reads at most, bytes/s.
    pub read_stream_bytes_s: f64,
    /// What a single thread writes at most, bytes/s.
    pub write_stream_bytes_s: f64,
    /// Time to the first byte of a local read, ns.
    pub read_latency_ns: f64,
    /// Time to the first byte of a local write, ns.
    pub write_latency_ns: f64,
    /// An undisturbed access from another node takes this many times as long, >= 1.
    pub remote_latency_factor: f64,
    /// Share of the medium's read bandwidth left for accesses from other nodes, in (0, 1].
    pub remote_read_bandwidth_factor: f64,
    /// Share of the medium's write bandwidth left for accesses from other nodes, in (0, 1].
    pub remote_write_bandwidth_factor: f64,
    /// Share of `read_bytes_s` left with that number of threads at once: (threads, factor), ascending.
    #[serde(deserialize_with = "points")]
    pub read_curve: Vec<(u32, f64)>,
    /// Share of `write_bytes_s` left with that number of threads at once: (threads, factor), ascending.
    #[serde(deserialize_with = "points")]
    pub write_curve: Vec<(u32, f64)>,
    /// Last-level cache that the node's threads share, bytes: whole [`LLC_GRAIN_BYTES`]. 0: none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub llc_bytes: u64,
    /// Time to the first byte from that cache, ns; 0 without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub llc_latency_ns: f64,
    /// What a single thread reads from that cache, bytes/s; 0 without one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub llc_read_bytes_s: f64,
}

/// Largest accepted dilation.
pub const MAX_DILATION: f64 = 65536.0;
/// Most virtual cores of a node.
pub const MAX_CORES: u32 = 256;
/// Most points of a concurrency curve.
pub const MAX_CURVE_POINTS: usize = 32;

/// A last-level cache is a multiple of this: 8 ways of 4 KiB blocks.
pub const LLC_GRAIN_BYTES: u64 = 8 * 4096;
/// Largest last-level cache of a node.
pub const MAX_LLC_BYTES: u64 = 64 << 20;

const NS_PER_S: f64 = 1e9;

fn persistent() -> MemoryKind {
    MemoryKind::Persistent
}

fn is_persistent(kind: &MemoryKind) -> bool {
    *kind == MemoryKind::Persistent
}

impl EmulatedNode {
    /// The node's medium.
    pub fn medium(&self) -> Medium<'_> {
        Medium {
            read: Side {
                bytes_s: self.read_bytes_s,
                stream_bytes_s: self.read_stream_bytes_s,
                latency_ns: self.read_latency_ns,
                remote_latency_factor: self.remote_latency_factor,
                remote_bandwidth_factor: self.remote_read_bandwidth_factor,
                curve: &self.read_curve,
            },
            write: Side {
                bytes_s: self.write_bytes_s,
                stream_bytes_s: self.write_stream_bytes_s,
                latency_ns: self.write_latency_ns,
                remote_latency_factor: self.remote_latency_factor,
                remote_bandwidth_factor: self.remote_write_bandwidth_factor,
                curve: &self.write_curve,
            },
            mix_curve: &[],
            remote_mix_curve: &[],
            directory_write_share: 0.0,
        }
    }

    /// The node's medium as a memory, for the model.
    pub fn as_memory(&self) -> Memory {
        Memory {
            kind: self.kind,
            controller: 0,
            modules: self.dimms,
            bytes: 0,
            read_bytes_s: self.read_bytes_s,
            write_bytes_s: self.write_bytes_s,
            read_stream_bytes_s: self.read_stream_bytes_s,
            write_stream_bytes_s: self.write_stream_bytes_s,
            read_latency_ns: self.read_latency_ns,
            write_latency_ns: self.write_latency_ns,
            remote_latency_factor: self.remote_latency_factor,
            remote_read_bandwidth_factor: self.remote_read_bandwidth_factor,
            remote_write_bandwidth_factor: self.remote_write_bandwidth_factor,
            read_curve: self.read_curve.clone(),
            write_curve: self.write_curve.clone(),
            // Emulation charges bytes, whatever their number.
            granularity_bytes: LINE_BYTES,
            directory_write_share: 0.0,
            sequential_read_latency_ns: None,
            remote_read_latency_factor: None,
            remote_write_latency_factor: None,
            interleave: None,
            mix_curve: Vec::new(),
            remote_mix_curve: Vec::new(),
            read_lines_at_once: None,
            write_lines_at_once: None,
            read_lines_in_flight: None,
            write_lines_in_flight: None,
        }
    }

    /// Bandwidth of the medium while `threads` access it at once, bytes/s.
    pub fn capacity_bytes_s(&self, kind: AccessKind, remote: bool, threads: u32) -> f64 {
        self.medium().capacity_bytes_s(kind, remote, threads)
    }

    /// Machine time for which the access occupies the node's medium, ns.
    pub fn service_ns(&self, bytes: u64, kind: AccessKind, remote: bool, threads: u32) -> f64 {
        self.medium().service_ns(bytes, kind, remote, threads)
    }

    /// Machine time the access takes beyond its service, without occupying the medium, ns.
    pub fn latency_ns(&self, bytes: u64, kind: AccessKind, remote: bool, threads: u32) -> f64 {
        let undisturbed_ns = self.undisturbed_ns(bytes, kind, remote, threads);
        undisturbed_ns - self.service_ns(bytes, kind, remote, threads)
    }

    /// Machine time of an access without contention: `latency_ns + service_ns`.
    pub fn undisturbed_ns(&self, bytes: u64, kind: AccessKind, remote: bool, threads: u32) -> f64 {
        self.medium().undisturbed_ns(bytes, kind, remote, threads)
    }

    /// Whether the node has a last-level cache.
    pub fn has_llc(&self) -> bool {
        self.llc_bytes > 0
    }

    /// Machine time a thread of this node takes to read bytes that its last-level cache holds,
    /// ns; 0 without one.
    pub fn cached_ns(&self, bytes: u64) -> f64 {
        if self.has_llc() {
            self.llc_latency_ns + bytes as f64 / self.llc_read_bytes_s * NS_PER_S
        } else {
            0.0
        }
    }

    /// Mean machine time of one access when `threads` threads do such accesses at once and
    /// nothing else, ns: *what the profile says*. `threads` counts at least as one.
    pub fn expected_operation_ns(
        &self,
        bytes: u64,
        kind: AccessKind,
        remote: bool,
        threads: u32,
    ) -> f64 {
        let threads = threads.max(1);
        let queue_ns = f64::from(threads) * self.service_ns(bytes, kind, remote, threads);
        self.undisturbed_ns(bytes, kind, remote, threads)
            .max(queue_ns)
    }

    /// Bandwidth of those `threads` together, bytes/s of machine time.
    pub fn expected_bytes_s(
        &self,
        bytes: u64,
        kind: AccessKind,
        remote: bool,
        threads: u32,
    ) -> f64 {
        let operation_ns = self.expected_operation_ns(bytes, kind, remote, threads);
        if operation_ns <= 0.0 {
            return 0.0;
        }
        f64::from(threads.max(1)) * bytes as f64 / operation_ns * NS_PER_S
    }
}
