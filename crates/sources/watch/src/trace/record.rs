//! The records of a window frame, in the order they come. Nodes are positions in the machine.
//!
//! ```text
//!   WindowHead                 fresh: forget all CPU sets and threads known so far
//!   NodeRecord                 one per node of the machine
//!   n, n x CPU set             (added to those known) n, n x (first - last of before, more)
//!   n, n x PersonRecord        (added to those known)
//!   n, n x ThreadRecord        each followed by what its flags announce:
//!     BUSY       u64 ns        FILES      n, n x FileRecord
//!     READ       counters      DISPLACED  u8 node (version 1 only, of no use)
//!     WRITTEN    counters      counters:  u64 mask of nodes, one u64 per node in it
//! ```

use egeria_facts::ThreadKey;
use serde::{Deserialize, Serialize};

pub(super) const BUSY: u8 = 1;
pub(super) const READ: u8 = 1 << 1;
pub(super) const WRITTEN: u8 = 1 << 2;
pub(super) const FILES: u8 = 1 << 3;
pub(super) const DISPLACED: u8 = 1 << 4;
pub(super) const SHARED: u8 = 1 << 5;
/// Flags that nobody sets.
pub(super) const UNKNOWN: u8 = !(BUSY | READ | WRITTEN | FILES | DISPLACED | SHARED);

#[derive(Serialize, Deserialize)]
pub(super) struct WindowHead {
    pub(super) fresh: bool,
    pub(super) number: u64,
    pub(super) start_ns: u64,
    pub(super) duration_ns: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct NodeRecord {
    pub(super) has_pool: bool,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) busy_ns: u64,
}

/// What seldom changes about a thread. When it does, the thread is added once more.
#[derive(Serialize, Deserialize)]
pub(super) struct PersonRecord<'a> {
    pub(super) process_id: u32,
    pub(super) thread_id: u32,
    pub(super) start_ticks: u64,
    /// Position among the CPU sets known.
    pub(super) cpu_set: u32,
    pub(super) pinned: bool,
    #[serde(borrow)]
    pub(super) name: &'a str,
}

impl PersonRecord<'_> {
    pub(super) fn key(&self) -> ThreadKey {
        ThreadKey {
            process_id: self.process_id,
            thread_id: self.thread_id,
            start_ticks: self.start_ticks,
        }
    }
}

/// What one thread did.
#[derive(Serialize, Deserialize)]
pub(super) struct ThreadRecord {
    /// Position among the threads known, from the one behind the thread before: mostly 0.
    pub(super) step: i64,
    pub(super) flags: u8,
    pub(super) node: u8,
}

#[derive(Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) volume: u32,
    pub(super) inode: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}
