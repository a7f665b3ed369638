//! What is known about files.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A file, by volume and inode.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default, Serialize, Deserialize,
)]
pub struct FileKey {
    /// Which of the volumes (or other file systems) watched, in the order they were found.
    pub volume: u32,
    /// The inode number there.
    pub inode: u64,
}

impl fmt::Display for FileKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "inode {} of volume {}", self.inode, self.volume)
    }
}

/// What one thread did with one file in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FileUse {
    pub file: FileKey,
    /// Bytes read from it.
    pub read_bytes: u64,
    pub written_bytes: u64,
}

/// One file in the window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FileFacts {
    pub file: FileKey,
    /// Its size, bytes.
    pub bytes: u64,
    /// How much of it lies on each node, bytes; index = position in `Machine::nodes`. Copies do not count.
    pub bytes_on: Vec<u64>,
    /// Bytes read, `[node of the reader][node of the data]`, by position in `Machine::nodes`; what was read from a copy
    /// counts at the node of the copy.
    pub read_bytes: Vec<Vec<u64>>,
    /// Bytes written to it, by all threads.
    pub written_bytes: u64,
    /// Whether a node holds a read-only copy of all of it, by position; nodes beyond the end hold none.
    #[serde(default)]
    pub replicas: Vec<bool>,
}

impl FileFacts {
    /// Bytes of it that lie on the node at this position.
    pub fn on(&self, node: usize) -> u64 {
        self.bytes_on.get(node).copied().unwrap_or_default()
    }

    /// Bytes that threads on one node read from another's memory, by position.
    pub fn read(&self, reader: usize, data: usize) -> u64 {
        let row = self.read_bytes.get(reader);
        row.and_then(|row| row.get(data))
            .copied()
            .unwrap_or_default()
    }

    /// Whether the node at this position holds a copy.
    pub fn has_replica(&self, node: usize) -> bool {
        self.replicas.get(node).copied().unwrap_or_default()
    }
}
