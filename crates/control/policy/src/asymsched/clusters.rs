//! Clusters (Alg. 1, lines 1-3): threads of a process on nodes that access a common memory controller.

use std::collections::BTreeMap;

use egeria_machine::{Machine, NodeId};

use super::cost::MemoryCost;
use super::following::Following;
use super::settings::Settings;
use egeria_facts::{AccessWindow, NodeAccesses, ProcessAccesses, ProcessKey};

/// A set of nodes by their positions in the machine.
pub(super) type NodeSet = u64;

/// The positions in a set, ascending.
pub(super) fn positions(mut set: NodeSet) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(next)
    })
}

/// A window as placements see it. Nodes are positions in the machine.
pub(super) struct Scene<'a> {
    pub(super) machine: &'a Machine,
    /// What moving memory takes.
    pub(super) cost: MemoryCost,
    /// Ascending by key.
    pub(super) processes: Vec<Process<'a>>,
    /// By process, then by node.
    pub(super) clusters: Vec<Members>,
    /// Where threads are that must stay, or that the machine has no cores for.
    pub(super) fixed: NodeSet,
    /// Where threads are.
    pub(super) occupied: NodeSet,
}

/// One process, its entries by position.
pub(super) struct Process<'a> {
    pub(super) facts: &'a ProcessAccesses,
    /// Its last move, while its memory follows.
    pub(super) following: Option<&'a Following>,
    pub(super) nodes: BTreeMap<usize, &'a NodeAccesses>,
}

/// A cluster (§4.2, Step 1): threads that share data, as the nodes they are on.
pub(super) struct Members {
    /// Position in `processes`.
    pub(super) process: usize,
    pub(super) nodes: NodeSet,
    /// Accesses to other nodes' memory, per second (`C_rbw`).
    pub(super) remote_accesses_s: f64,
    /// `ln(1 + C_rbw)`: the paper's logarithm, which must not be negative.
    pub(super) weight: f64,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        window: &'a AccessWindow,
        settings: &Settings,
        following: &'a [(ProcessKey, Following)],
    ) -> Scene<'a> {
        let mut processes: Vec<Process<'a>> = window
            .processes
            .iter()
            .map(|facts| Process::new(machine, facts, following))
            .collect();
        processes.sort_by_key(|process| process.facts.process);
        let mut scene = Scene {
            machine,
            cost: MemoryCost::of(window, settings),
            clusters: Vec::new(),
            fixed: 0,
            occupied: 0,
            processes: Vec::new(),
        };
        for (index, process) in processes.iter().enumerate() {
            let found = process.clusters(machine, settings);
            scene
                .clusters
                .extend(found.map(|nodes| process.members(index, nodes)));
            for (node, each) in process.with_threads() {
                scene.occupied |= 1 << node;
                let has_cores = machine.core_count(&machine.nodes[node]) > 0;
                scene.fixed |= u64::from(each.pinned || !has_cores) << node;
            }
        }
        scene
            .clusters
            .sort_by_key(|cluster| (cluster.process, cluster.nodes.trailing_zeros()));
        scene.processes = processes;
        scene
    }

    /// No thread goes to or leaves these nodes.
    pub(super) fn fix(&mut self, nodes: &[NodeId]) {
        let positions = nodes.iter().filter_map(|id| self.machine.index_of(*id));
        self.fixed |= positions.fold(0, |set, node| set | 1 << node);
    }

    pub(super) fn key(&self, process: usize) -> ProcessKey {
        self.processes[process].facts.process
    }

    /// What goes along when the threads on a node do: the memory there of their processes, bytes.
    pub(super) fn bytes_along(&self, node: usize) -> u64 {
        let on_node = self
            .processes
            .iter()
            .filter_map(|process| process.nodes.get(&node));
        let with_threads = on_node.filter(|each| each.threads > 0);
        with_threads.fold(0, |sum, each| sum.saturating_add(each.resident_bytes))
    }
}

impl<'a> Process<'a> {
    /// What is on nodes that the machine does not have, and second entries, are left out.
    fn new(
        machine: &Machine,
        facts: &'a ProcessAccesses,
        following: &'a [(ProcessKey, Following)],
    ) -> Process<'a> {
        let mut nodes = BTreeMap::new();
        for each in &facts.nodes {
            if let Some(position) = machine.index_of(each.node) {
                nodes.entry(position).or_insert(each);
            }
        }
        let mut following = following.iter();
        let own = following.find(|(process, _)| *process == facts.process);
        Process {
            facts,
            following: own.map(|(_, following)| following),
            nodes,
        }
    }

    pub(super) fn with_threads(&self) -> impl Iterator<Item = (usize, &'a NodeAccesses)> + '_ {
        let nodes = self.nodes.iter().map(|(node, each)| (*node, *each));
        nodes.filter(|(_, each)| each.threads > 0)
    }

    /// The nodes of its threads, joined where they access a common controller. Threads on a node count as accessing
    /// its own: they share with each other (§4.2 a), and with threads that often access it (b).
    fn clusters(&self, machine: &Machine, settings: &Settings) -> impl Iterator<Item = NodeSet> {
        let count = machine.nodes.len();
        let mut joined: Vec<(NodeSet, NodeSet)> = Vec::new();
        for (node, each) in self.with_threads() {
            let is_high = |memory: &usize| {
                each.rate_to(*memory) > 0.0 && each.rate_to(*memory) >= settings.sharing_accesses_s
            };
            let reached = (0..count)
                .filter(is_high)
                .fold(0, |set, memory| set | 1 << memory);
            let mut all = (1 << node, reached | 1 << node);
            joined.retain(|(nodes, memories)| {
                let is_common = memories & all.1 != 0;
                if is_common {
                    all = (all.0 | nodes, all.1 | memories);
                }
                !is_common
            });
            joined.push(all);
        }
        joined.into_iter().map(|(nodes, _)| nodes)
    }

    fn members(&self, process: usize, nodes: NodeSet) -> Members {
        let remote = |node: usize| -> f64 {
            let each = self.nodes[&node];
            let others = (0..each.accesses_s.len()).filter(|memory| *memory != node);
            others.map(|memory| each.rate_to(memory)).sum()
        };
        let remote_accesses_s: f64 = positions(nodes).map(remote).sum();
        Members {
            process,
            nodes,
            remote_accesses_s,
            weight: remote_accesses_s.ln_1p(),
        }
    }
}
