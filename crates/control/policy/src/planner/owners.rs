//! Which policy moves a process's threads, so that two policies never order about one thread.
//!
//! A process belongs to *files* or to *memory*, whichever moves more bytes per second for it: bytes that its threads
//! with file I/O read and write, or its accesses to memory times a cache line. Threads of a files process move one by
//! one (NThread), those of a memory process by whole nodes (AsymSched). A process keeps its kind until the other is
//! twice as much, because a move changes both. A process without known accesses belongs to files, one without file I/O
//! to memory.
//!
//! What each policy knows of the other's processes:
//!
//! * NThread counts the threads of memory processes where they will be, and leaves them there.
//! * AsymSched does not see files processes; a node of which they keep half the CPUs busy it neither takes nor gives
//!   away.
//! * Neither moves threads that their owners bound, or that may not run on every node they could be sent to.

use std::collections::{BTreeMap, HashMap};

use egeria_facts::{AccessWindow, Facts, ProcessAccesses, ThreadFacts, ThreadKey};
use egeria_machine::{LINE_BYTES, Machine, NodeId};

use super::settings::Settings;
use crate::asymsched::PlacementPlan;

/// A process keeps its kind until the other kind is larger by this factor.
const STAYS: f64 = 2.0;
/// A node of which files processes keep more than this share of the CPUs busy is not AsymSched's.
const TAKEN_SHARE: f64 = 0.5;

/// The kind of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Owner {
    /// Its threads move one by one.
    Files,
    /// Its threads move by whole nodes.
    Memory,
}

/// The kind of each process, kept from window to window, by process id.
#[derive(Clone, Debug, Default)]
pub(super) struct Owners {
    by_process: BTreeMap<u32, Owner>,
}

impl Owners {
    /// Looks at all processes of the window.
    pub(super) fn look(&mut self, facts: &Facts, settings: &Settings) {
        let (files, memory) = (settings.moves_threads(), settings.stages.clusters);
        let mut traffic: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for thread in &facts.window.threads {
            let bytes_s = facts.window.rate_bytes_s(thread.moved_total());
            let counts = bytes_s >= settings.nthread.min_io_bytes_s;
            let entry = traffic.entry(thread.key.process_id).or_default();
            entry.0 += if counts { bytes_s } else { 0.0 };
        }
        for process in &facts.accesses.processes {
            let entry = traffic.entry(process.process.process_id).or_default();
            entry.1 += memory_bytes_s(process);
        }
        let old = std::mem::take(&mut self.by_process);
        let owner = |(process, (file_bytes_s, memory_bytes_s)): (u32, (f64, f64))| {
            let owner = match (files, memory, old.get(&process)) {
                (true, false, _) => Owner::Files,
                (false, _, _) => Owner::Memory,
                (_, _, Some(Owner::Memory)) if file_bytes_s <= STAYS * memory_bytes_s => {
                    Owner::Memory
                }
                (_, _, Some(Owner::Files)) if memory_bytes_s <= STAYS * file_bytes_s => {
                    Owner::Files
                }
                _ if memory_bytes_s > file_bytes_s => Owner::Memory,
                _ => Owner::Files,
            };
            (process, owner)
        };
        self.by_process = traffic.into_iter().map(owner).collect();
    }

    /// The kind of a process.
    pub(super) fn of(&self, process: u32) -> Owner {
        self.by_process
            .get(&process)
            .copied()
            .unwrap_or(Owner::Files)
    }

    /// The accesses of memory processes, with threads bound where their facts say so.
    pub(super) fn memory_window(&self, machine: &Machine, facts: &Facts) -> AccessWindow {
        let mut window = facts.accesses.clone();
        window
            .processes
            .retain(|process| self.of(process.process.process_id) == Owner::Memory);
        let bound: Vec<(u32, NodeId)> = facts
            .window
            .threads
            .iter()
            .filter(|thread| is_bound(machine, thread))
            .map(|thread| (thread.key.process_id, thread.node))
            .collect();
        for process in &mut window.processes {
            let id = process.process.process_id;
            for each in &mut process.nodes {
                each.pinned |= bound.contains(&(id, each.node));
            }
        }
        window
    }

    /// The nodes of which files processes keep half the CPUs busy.
    pub(super) fn taken_nodes(&self, machine: &Machine, facts: &Facts) -> Vec<NodeId> {
        let busy_ns = |node: NodeId| -> f64 {
            let threads = facts.window.threads.iter();
            let there = threads.filter(|thread| {
                thread.node == node && self.of(thread.key.process_id) == Owner::Files
            });
            there.map(|thread| thread.busy_ns as f64).sum()
        };
        let is_taken = |node: &&egeria_machine::Node| {
            let all_ns = machine.core_count(node) as f64 * facts.window.duration_ns as f64;
            busy_ns(node.id) > TAKEN_SHARE * all_ns
        };
        let nodes = machine.nodes.iter().filter(is_taken);
        nodes.map(|node| node.id).collect()
    }

    /// The threads of memory processes, where the placement puts them.
    pub(super) fn held(
        &self,
        facts: &Facts,
        placement: &PlacementPlan,
    ) -> HashMap<ThreadKey, NodeId> {
        let threads = facts.window.threads.iter();
        let held = threads.filter(|thread| self.of(thread.key.process_id) == Owner::Memory);
        let place = |thread: &ThreadFacts| {
            let mut moves = placement.moves.iter();
            let step = moves.find(|step| {
                step.process.process_id == thread.key.process_id && step.from == thread.node
            });
            (thread.key, step.map_or(thread.node, |step| step.to))
        };
        held.map(place).collect()
    }
}

fn memory_bytes_s(process: &ProcessAccesses) -> f64 {
    let rates = process.nodes.iter().flat_map(|each| &each.accesses_s);
    let rates = rates.filter(|rate| rate.is_finite() && **rate > 0.0);
    rates.sum::<f64>() * LINE_BYTES as f64
}

/// Whether a thread may not run on every node that a placement may send it to: any node with as many cores.
fn is_bound(machine: &Machine, thread: &ThreadFacts) -> bool {
    let cores = |node| machine.core_count(node);
    let Some(here) = machine.node(thread.node) else {
        return true;
    };
    let may_run = |node: &egeria_machine::Node| {
        let takes_any = machine.is_emulated() && node.cpus.is_empty();
        takes_any
            || thread
                .allowed_cpus
                .intersects(&node.cpus.iter().copied().collect())
    };
    let like = machine
        .nodes
        .iter()
        .filter(|node| cores(node) == cores(here));
    thread.pinned || !like.into_iter().all(may_run)
}

/// The flows of memory processes over the ways between nodes, with threads and memory where the placement puts them.
/// From the memory's node to the reader's, by position, bytes/s.
pub(super) fn memory_flows(
    machine: &Machine,
    window: &AccessWindow,
    placement: &PlacementPlan,
) -> Vec<(usize, usize, f64)> {
    let mut flows = Vec::new();
    for process in &window.processes {
        let mut moves = placement.moves.iter();
        let own: Vec<_> = moves
            .by_ref()
            .filter(|step| step.process == process.process)
            .collect();
        let after = |node: NodeId| {
            let step = own.iter().find(|step| step.from == node);
            machine.index_of(step.map_or(node, |step| step.to))
        };
        for each in &process.nodes {
            let rates = machine.nodes.iter().zip(&each.accesses_s);
            for (memory, rate) in rates {
                let ends = after(memory.id).zip(after(each.node));
                let is_flow = rate.is_finite() && *rate > 0.0;
                if let Some((memory, reader)) = ends.filter(|ends| is_flow && ends.0 != ends.1) {
                    flows.push((memory, reader, rate * LINE_BYTES as f64));
                }
            }
        }
    }
    flows
}
