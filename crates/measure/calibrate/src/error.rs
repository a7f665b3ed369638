//! The errors of this crate: each is one line that names the cause and what to do.

use std::io;
use std::path::PathBuf;

use egeria_machine::{NodeId, format_bytes};
use egeria_media::emulation::EmulationError;

const MIB: u64 = 1 << 20;

/// Why a machine could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// None of the machine's CPUs may be used by this process.
    #[error("this process may use none of the machine's CPUs; run it with a wider CPU affinity")]
    NoCpus,
    /// The machine cannot be emulated.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
    /// Accesses to the emulated machine are charged no time.
    #[error("accesses to the emulated machine {name} take no time; set timing = true in its file")]
    Untimed { name: String },
    /// Accesses to a memory of the emulated machine take too long.
    #[error(
        "CPUs of node {from} may wait longer than 0.1 s for a memory of node {node} of {name}; raise bandwidths, or lower latencies, of the memory or of links to it", from = from.0, node = node.0
    )]
    Slow {
        name: String,
        /// The node of the memory.
        node: NodeId,
        /// The node of the CPUs.
        from: NodeId,
    },
    /// Threads of an emulated machine could not be started.
    #[error("cannot start a thread: {cause}; raise the limit on threads (ulimit -u, pids.max)")]
    Threads {
        /// What the kernel said.
        cause: io::Error,
    },
    /// The buffer would be served from the cache.
    #[error(
        "a buffer of {} is not well above the {} of a node's caches; use at least {}MiB", format_bytes(*bytes), format_bytes(*cache_bytes), least.div_ceil(MIB)
    )]
    SmallBuffer {
        /// What was asked for.
        bytes: u64,
        /// Caches of one node, of all levels.
        cache_bytes: u64,
        least: u64,
    },
    /// There is not enough free memory.
    #[error(
        "{place} has {} free and measuring it takes {}; free some, or use a smaller buffer", format_bytes(*free), format_bytes(*needed)
    )]
    Memory {
        /// `node 1`, or the machine.
        place: String,
        free: u64,
        needed: u64,
    },
    /// The kernel would not give memory.
    #[error("cannot get {} of {place}: {cause}; free memory, or use a smaller buffer", format_bytes(*bytes))]
    Map {
        /// `node 1`, or a path.
        place: String,
        bytes: u64,
        /// What the kernel said.
        cause: io::Error,
    },
    /// The kernel would not bind memory to its node.
    #[error(
        "cannot bind memory to node {node}: {cause}; containers may forbid it (mbind): run outside, or allow it"
    )]
    Bind {
        node: u16,
        /// What the kernel said.
        cause: io::Error,
    },
    /// A pool cannot be used.
    #[error("{}: {problem}; {hint}", path.display())]
    Pool {
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// No thread could be started, or not where it belongs.
    #[error(
        "cannot run a thread on CPU {cpu}: {cause}; raise the limit on threads, or widen the affinity"
    )]
    Thread {
        cpu: u16,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Somebody asked to stop.
    #[error("stopped before all was measured; run it again")]
    Stopped,
}
