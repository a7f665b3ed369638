//! What a whole recording comes to.

use std::collections::HashMap;

use egeria_facts::{CpuSet, ThreadFacts, ThreadKey, Window};
use egeria_machine::{Machine, NodeId};
use serde::Serialize;

/// Sums over windows.
#[derive(Default)]
pub(super) struct Totals {
    pub(super) windows: u64,
    /// When the first window began, ns.
    pub(super) start_ns: u64,
    duration_ns: u64,
    threads: HashMap<ThreadKey, ThreadTotal>,
    max_threads: usize,
    bytes: Bytes,
}

/// Bytes read and written, and how many of them on the thread's own node.
#[derive(Clone, Copy, Default, Serialize)]
struct Bytes {
    read_bytes: u64,
    written_bytes: u64,
    local_bytes: u64,
}

#[derive(Serialize)]
pub(super) struct Summary {
    pub(super) windows: u64,
    /// Lengths of all windows, ns.
    pub(super) duration_ns: u64,
    pub(super) threads: usize,
    pub(super) max_threads: usize,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) local_share: Option<f64>,
}

/// What one thread did in all windows.
#[derive(Clone, Serialize)]
pub(super) struct ThreadTotal {
    #[serde(flatten)]
    pub(super) key: ThreadKey,
    /// As it was last.
    pub(super) name: String,
    /// As it was last.
    pub(super) node: NodeId,
    /// How often it was on another node than in the window before.
    pub(super) node_changes: u64,
    /// As they were last.
    pub(super) allowed_cpus: CpuSet,
    pub(super) pinned: bool,
    pub(super) is_shared: bool,
    pub(super) windows: u64,
    /// Lengths of those windows, ns.
    pub(super) duration_ns: u64,
    pub(super) busy_ns: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    local_bytes: u64,
    pub(super) local_share: Option<f64>,
}

impl Totals {
    /// Adds a valid window.
    pub(super) fn add(&mut self, machine: &Machine, window: &Window) {
        if self.windows == 0 {
            self.start_ns = window.start_ns;
        }
        self.windows += 1;
        self.duration_ns = self.duration_ns.saturating_add(window.duration_ns);
        self.max_threads = self.max_threads.max(window.threads.len());
        for facts in &window.threads {
            let bytes = Bytes::of(machine, facts);
            self.bytes.add(bytes);
            let total = self.threads.entry(facts.key);
            let total = total.or_insert_with(|| ThreadTotal::new(facts));
            total.add(facts, bytes, window.duration_ns);
        }
    }

    pub(super) fn summary(&self) -> Summary {
        Summary {
            windows: self.windows,
            duration_ns: self.duration_ns,
            threads: self.threads.len(),
            max_threads: self.max_threads,
            read_bytes: self.bytes.read_bytes,
            written_bytes: self.bytes.written_bytes,
            local_share: self.bytes.local_share(),
        }
    }

    /// All threads, busiest first.
    pub(super) fn threads(&self) -> Vec<ThreadTotal> {
        let mut threads: Vec<ThreadTotal> = self.threads.values().cloned().collect();
        for thread in &mut threads {
            thread.local_share = thread.bytes().local_share();
        }
        let rank = |thread: &ThreadTotal| {
            let moved = thread.bytes().moved();
            (std::cmp::Reverse((moved, thread.busy_ns)), thread.key)
        };
        threads.sort_by_key(rank);
        threads
    }
}

impl Bytes {
    fn of(machine: &Machine, facts: &ThreadFacts) -> Bytes {
        let index = machine.index_of(facts.node);
        Bytes {
            read_bytes: facts.read_total(),
            written_bytes: facts.written_total(),
            local_bytes: index.map_or(0, |index| facts.moved_at(index)),
        }
    }

    fn add(&mut self, more: Bytes) {
        self.read_bytes = self.read_bytes.saturating_add(more.read_bytes);
        self.written_bytes = self.written_bytes.saturating_add(more.written_bytes);
        self.local_bytes = self.local_bytes.saturating_add(more.local_bytes);
    }

    fn moved(&self) -> u64 {
        self.read_bytes.saturating_add(self.written_bytes)
    }

    fn local_share(&self) -> Option<f64> {
        let moved = self.moved();
        (moved > 0).then(|| self.local_bytes as f64 / moved as f64)
    }
}

impl ThreadTotal {
    fn new(facts: &ThreadFacts) -> ThreadTotal {
        ThreadTotal {
            key: facts.key,
            name: String::new(),
            node: facts.node,
            node_changes: 0,
            allowed_cpus: CpuSet::empty(),
            pinned: false,
            is_shared: false,
            windows: 0,
            duration_ns: 0,
            busy_ns: 0,
            read_bytes: 0,
            written_bytes: 0,
            local_bytes: 0,
            local_share: None,
        }
    }

    fn add(&mut self, facts: &ThreadFacts, bytes: Bytes, duration_ns: u64) {
        self.node_changes += u64::from(self.node != facts.node);
        self.node = facts.node;
        self.name.clone_from(&facts.name);
        self.allowed_cpus = facts.allowed_cpus.clone();
        self.pinned = facts.pinned;
        self.is_shared |= facts.is_shared;
        self.windows += 1;
        self.duration_ns = self.duration_ns.saturating_add(duration_ns);
        self.busy_ns = self.busy_ns.saturating_add(facts.busy_ns);
        let mut sum = self.bytes();
        sum.add(bytes);
        self.read_bytes = sum.read_bytes;
        self.written_bytes = sum.written_bytes;
        self.local_bytes = sum.local_bytes;
    }

    fn bytes(&self) -> Bytes {
        Bytes {
            read_bytes: self.read_bytes,
            written_bytes: self.written_bytes,
            local_bytes: self.local_bytes,
        }
    }
}
