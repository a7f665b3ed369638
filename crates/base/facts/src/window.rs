//! A stretch of time with its facts.

use egeria_machine::Machine;
use serde::{Deserialize, Serialize};

use crate::{NodeFacts, ThreadFacts, ThreadKey};

const NS_PER_S: f64 = 1e9;

/// All facts of one stretch of time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Window {
    /// Counts the windows of a run, from 0.
    pub number: u64,
    /// When it began, ns of the machine's own clock (on an emulated machine: machine time).
    pub start_ns: u64,
    /// How long it lasted, ns of the same clock.
    pub duration_ns: u64,
    /// The threads, in any order, each once.
    pub threads: Vec<ThreadFacts>,
    /// The nodes, one per `Machine::nodes` and in that order.
    pub nodes: Vec<NodeFacts>,
}

impl Window {
    /// A window without any activity, on this machine.
    pub fn empty(machine: &Machine, number: u64, start_ns: u64, duration_ns: u64) -> Window {
        let nodes = machine.nodes.iter().map(|node| NodeFacts::idle(node.id));
        Window {
            number,
            start_ns,
            duration_ns,
            threads: Vec::new(),
            nodes: nodes.collect(),
        }
    }

    pub fn seconds(&self) -> f64 {
        self.duration_ns as f64 / NS_PER_S
    }

    /// A number of bytes in the window, per second; 0 in a window without length.
    pub fn rate_bytes_s(&self, bytes: u64) -> f64 {
        match self.duration_ns {
            0 => 0.0,
            duration_ns => bytes as f64 * NS_PER_S / duration_ns as f64,
        }
    }

    pub fn thread(&self, key: ThreadKey) -> Option<&ThreadFacts> {
        self.threads.iter().find(|thread| thread.key == key)
    }

    /// Bytes that all threads read.
    pub fn read_total(&self) -> u64 {
        let totals = self.threads.iter().map(ThreadFacts::read_total);
        totals.fold(0, u64::saturating_add)
    }

    /// Bytes that all threads wrote.
    pub fn written_total(&self) -> u64 {
        let totals = self.threads.iter().map(ThreadFacts::written_total);
        totals.fold(0, u64::saturating_add)
    }

    /// Share of the bytes read and written that were on the thread's own node, in [0, 1];
    /// `None` when nothing was read or written.
    pub fn local_share(&self, machine: &Machine) -> Option<f64> {
        let (local_bytes, all_bytes) = self.local_bytes(machine);
        share(local_bytes, all_bytes)
    }

    /// Bytes read and written that were on the thread's own node, and all of them.
    pub(crate) fn local_bytes(&self, machine: &Machine) -> (u64, u64) {
        let local = |thread: &ThreadFacts| {
            let index = machine.index_of(thread.node);
            index.map_or(0, |index| thread.moved_at(index))
        };
        let (mut local_bytes, mut all_bytes) = (0_u64, 0_u64);
        for thread in &self.threads {
            local_bytes = local_bytes.saturating_add(local(thread));
            all_bytes = all_bytes.saturating_add(thread.moved_total());
        }
        (local_bytes, all_bytes)
    }
}

impl ThreadFacts {
    /// Share of its bytes read and written that were on its own node, in [0, 1]; `None` when it
    /// read and wrote nothing.
    pub fn local_share(&self, machine: &Machine) -> Option<f64> {
        let index = machine.index_of(self.node);
        let local_bytes = index.map_or(0, |index| self.moved_at(index));
        share(local_bytes, self.moved_total())
    }
}

pub(crate) fn share(part: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| part as f64 / all as f64)
}
