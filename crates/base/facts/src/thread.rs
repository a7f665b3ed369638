//! What is known about one thread.

use std::fmt;

use egeria_machine::NodeId;
use serde::{Deserialize, Serialize};

use crate::{CpuSet, FileUse};

/// Longest thread name kept (the kernel's own have 15 bytes).
pub const MAX_NAME_CHARS: usize = 64;
/// As long as a path may be on Linux.
const MAX_PATH_CHARS: usize = 4096;

/// Identifies a thread for as long as the machine runs: the kernel reuses ids, but never together with the start time.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize,
)]
pub struct ThreadKey {
    /// The process (the kernel's thread group id).
    pub process_id: u32,
    /// The thread (the kernel's task id).
    pub thread_id: u32,
    /// When the thread began, in the clock ticks of `/proc/PID/task/TID/stat`.
    pub start_ticks: u64,
}

impl fmt::Display for ThreadKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (thread, process) = (self.thread_id, self.process_id);
        write!(formatter, "thread {thread} of process {process}")
    }
}

/// What one thread did in the window, and where it may run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ThreadFacts {
    pub key: ThreadKey,
    /// Its name, for people; at most [`MAX_NAME_CHARS`] printable characters
    /// ([`printable_name`]).
    pub name: String,
    /// The node it runs on at the end of the window.
    pub node: NodeId,
    /// The CPUs its owner gave it: never what the steward narrowed that to.
    pub allowed_cpus: CpuSet,
    /// Its owner bound it to chosen CPUs: no policy may move it.
    #[serde(default)]
    pub pinned: bool,
    /// Bytes read from each node; index = position in `Machine::nodes`.
    pub read_bytes: Vec<u64>,
    /// Bytes written to each node; index = position in `Machine::nodes`.
    pub written_bytes: Vec<u64>,
    /// Time it ran in the window, ns; on an emulated machine emulated waits count.
    pub busy_ns: u64,
    /// It touched a file that another thread also touched in the window.
    #[serde(default)]
    pub is_shared: bool,
    /// The files it used most, busiest first; at most [`crate::MAX_FILES`].
    #[serde(default)]
    pub files: Vec<FileUse>,
}

impl ThreadFacts {
    /// A thread without activity, on a machine with this number of nodes, which may run anywhere in `allowed_cpus`.
    pub fn idle(
        key: ThreadKey,
        node: NodeId,
        node_count: usize,
        allowed_cpus: CpuSet,
    ) -> ThreadFacts {
        ThreadFacts {
            key,
            name: String::new(),
            node,
            allowed_cpus,
            pinned: false,
            read_bytes: vec![0; node_count],
            written_bytes: vec![0; node_count],
            busy_ns: 0,
            is_shared: false,
            files: Vec::new(),
        }
    }

    /// Bytes read, from all nodes.
    pub fn read_total(&self) -> u64 {
        total(&self.read_bytes)
    }

    /// Bytes written, to all nodes.
    pub fn written_total(&self) -> u64 {
        total(&self.written_bytes)
    }

    /// Bytes read and written.
    pub fn moved_total(&self) -> u64 {
        self.read_total().saturating_add(self.written_total())
    }

    /// Bytes read from and written to the node at this position.
    pub fn moved_at(&self, index: usize) -> u64 {
        let at = |bytes: &[u64]| bytes.get(index).copied().unwrap_or_default();
        at(&self.read_bytes).saturating_add(at(&self.written_bytes))
    }
}

/// A thread's name, made printable: a thread can set its own name, and some bytes control terminals.
pub fn printable_name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    printable(text.trim_end_matches(['\0', '\n']), MAX_NAME_CHARS)
}

/// A file's path as it may be shown.
pub fn printable_path(bytes: &[u8]) -> String {
    printable(&String::from_utf8_lossy(bytes), MAX_PATH_CHARS)
}

fn printable(text: &str, max_chars: usize) -> String {
    let cut: String = text.chars().take(max_chars).collect();
    egeria_machine::printable(&cut)
}

pub(crate) fn total(bytes: &[u64]) -> u64 {
    let sum = |sum: u64, &next: &u64| sum.saturating_add(next);
    bytes.iter().fold(0, sum)
}
