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

pub(crate) const BUSY: u8 = 1;
pub(crate) const READ: u8 = 1 << 1;
pub(crate) const WRITTEN: u8 = 1 << 2;
pub(crate) const FILES: u8 = 1 << 3;
pub(crate) const DISPLACED: u8 = 1 << 4;
pub(crate) const SHARED: u8 = 1 << 5;
/// Flags that have no meaning.
pub(crate) const UNKNOWN: u8 = !(BUSY | READ | WRITTEN | FILES | DISPLACED | SHARED);

#[derive(Serialize, Deserialize)]
pub(crate) struct WindowHead {
    pub(crate) fresh: bool,
    pub(crate) number: u64,
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    pub(crate) has_pool: bool,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) busy_ns: u64,
}

/// What seldom changes about a thread. When it does, the thread is added once more.
#[derive(Serialize, Deserialize)]
pub(crate) struct PersonRecord<'a> {
    pub(crate) process_id: u32,
    pub(crate) thread_id: u32,
    pub(crate) start_ticks: u64,
    /// Position among the CPU sets known.
    pub(crate) cpu_set: u32,
    pub(crate) pinned: bool,
    #[serde(borrow)]
    pub(crate) name: &'a str,
}

impl PersonRecord<'_> {
    pub(crate) fn key(&self) -> ThreadKey {
        ThreadKey {
            process_id: self.process_id,
            thread_id: self.thread_id,
            start_ticks: self.start_ticks,
        }
    }
}

/// What one thread did.
#[derive(Serialize, Deserialize)]
pub(crate) struct ThreadRecord {
    /// Position among the threads known, from the one behind the thread before: mostly 0.
    pub(crate) step: i64,
    pub(crate) flags: u8,
    pub(crate) node: u8,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct FileRecord {
    pub(crate) volume: u32,
    pub(crate) inode: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
}
