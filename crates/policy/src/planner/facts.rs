//! What one window tells the planner.

use egeria_machine::NodeId;
use egeria_window::{FileKey, Window};
use serde::{Deserialize, Serialize};

use crate::{asymsched, pats};

/// The facts of one stretch of time. Lists that nobody filled are empty: the stages that need them then decide nothing.
///
/// One that makes no sense still gets an answer, in which what makes none is left alone.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// File I/O per thread and node (NThread). Marks of displaced threads are the planner's own: it puts them in.
    pub window: Window,
    /// Accesses to memory per process and node, beside those that file I/O makes (AsymSched). What follows an earlier
    /// move is the planner's own: it puts it in.
    pub accesses: asymsched::AccessWindow,
    /// Nodes with persistent memory (PATS, OdinFS), in any order; each at most once.
    pub media: Vec<MediumFacts>,
    /// The files used most, and those that lie on full nodes (relocation), in any order; each at most once.
    pub files: Vec<FileFacts>,
}

impl Facts {
    /// A window of file I/O and nothing else.
    pub fn of(window: Window) -> Facts {
        Facts {
            accesses: asymsched::AccessWindow {
                number: window.number,
                end_ns: window.start_ns.saturating_add(window.duration_ns),
                processes: Vec::new(),
            },
            window,
            media: Vec::new(),
            files: Vec::new(),
        }
    }

    /// The same in an order that does not depend on who filled it: sums of rates do.
    pub(super) fn in_order(&self) -> Facts {
        let mut facts = self.clone();
        facts.window.threads.sort_by_key(|thread| thread.key);
        let processes = &mut facts.accesses.processes;
        processes.sort_by_key(|process| process.process);
        for process in processes {
            process.nodes.sort_by_key(|each| each.node);
        }
        facts.media.sort_by_key(|medium| medium.node);
        facts.files.sort_by_key(|file| file.file);
        facts
    }
}

/// The persistent memory of one node in the window.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct MediumFacts {
    /// Which node.
    pub node: NodeId,
    /// Requests, threads at it and throughput, under the limit that the plan before set.
    pub measured: pats::Measured,
    /// Room for more data there, bytes; `None` where nobody knows, which counts as enough.
    #[serde(default)]
    pub free_bytes: Option<u64>,
}

/// One file in the window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct FileFacts {
    /// Which file.
    pub file: FileKey,
    /// Its size, bytes.
    pub bytes: u64,
    /// How much of it lies on each node, bytes; index = position in `Machine::nodes`. Copies do not count.
    pub bytes_on: Vec<u64>,
    /// Bytes read, `[node of the reader][node of the data]`, by position in `Machine::nodes`; what was read from a copy
    /// counts at the node of the copy.
    pub read_bytes: Vec<Vec<u64>>,
    /// Bytes written to it, by anybody.
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
