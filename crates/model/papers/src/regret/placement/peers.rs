//! Where others put threads and memory: at random, and by the rules of what people use, as functions of where both are at
//! first. Each is a workload that starts there.

use egeria_machine::{Machine, Node, NodeId};
use egeria_sim::workload::{FileGroup, MediumKind, ThreadGroup, Workload};
use egeria_stats::rng::Rng;

type Rule = fn(&Machine, &Workload) -> Workload;

/// The rules and their names.
pub(super) const PEERS: [(&str, Rule); 3] = [
    ("numa_balancing", numa_balancing),
    ("numad", numad),
    ("interleave", interleave),
];

/// The node of each thread of a group.
fn nodes_of_threads(group: &ThreadGroup) -> Vec<NodeId> {
    let starts = group.start_nodes.iter().copied().cycle();
    starts.take(group.count as usize).collect()
}

/// Bytes of files on each node, by position.
fn held(machine: &Machine, files: &[FileGroup]) -> Vec<f64> {
    let mut held = vec![0.0; machine.nodes.len()];
    for group in files {
        let bytes = group.bytes as f64 * group.count as f64;
        for id in &group.nodes {
            if let Some(node) = machine.index_of(*id) {
                held[node] += bytes / group.nodes.len() as f64;
            }
        }
    }
    held
}

/// Whether each node has room for what lies there.
pub(super) fn fits(machine: &Machine, workload: &Workload) -> bool {
    let held = held(machine, &workload.files);
    let both = machine.nodes.iter().zip(held);
    let mut over = both.filter(|(node, held)| *held > room(node));
    over.next().is_none()
}

fn room(node: &Node) -> f64 {
    match node.memory_bytes {
        0 => f64::INFINITY,
        bytes => bytes as f64,
    }
}

/// Threads of each group on random nodes, memory on random nodes or on those of its threads. What its owner bound stays.
pub(super) fn at_random(machine: &Machine, workload: &Workload, rng: &mut Rng) -> Workload {
    const TRIES: u32 = 20;
    let nodes: Vec<NodeId> = machine.nodes.iter().map(|node| node.id).collect();
    let has_cores = |id: &NodeId| {
        let node = machine.node(*id);
        node.is_some_and(|node| machine.core_count(node) > 0)
    };
    let with_cores: Vec<NodeId> = nodes.iter().copied().filter(has_cores).collect();
    for _ in 0..TRIES {
        let mut placed = workload.clone();
        for group in &mut placed.threads {
            if !group.pinned {
                group.start_nodes = some(rng, &with_cores);
            }
        }
        for files in &mut placed.files {
            let users = || {
                let all = placed.threads.iter();
                all.filter(|group| group.files == files.name)
            };
            let near: Vec<NodeId> = users()
                .flat_map(|group| group.start_nodes.clone())
                .collect();
            let is_shared = users().any(|group| group.shared);
            files.in_turn = !is_shared;
            files.nodes = if rng.one_in(2) {
                some(rng, &nodes)
            } else if is_shared {
                unique(near)
            } else {
                near
            };
        }
        if fits(machine, &placed) {
            return placed;
        }
    }
    workload.clone()
}

fn some(rng: &mut Rng, nodes: &[NodeId]) -> Vec<NodeId> {
    match rng.below(4) {
        0 => nodes.to_vec(),
        1 => {
            let some: Vec<NodeId> = nodes.iter().copied().filter(|_| rng.one_in(2)).collect();
            if some.is_empty() {
                nodes.to_vec()
            } else {
                some
            }
        }
        _ => rng.choose(nodes).copied().into_iter().collect(),
    }
}

fn unique(mut nodes: Vec<NodeId>) -> Vec<NodeId> {
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The kernel's NUMA balancing: pages that one node uses go there while there is room, others stay; then threads go to the
/// node with most of their memory while it has idle cores. Page cache that is only read is not seen.
fn numa_balancing(machine: &Machine, workload: &Workload) -> Workload {
    let mut placed = workload.clone();
    for index in 0..placed.files.len() {
        let before = placed.files[index].clone();
        let users = placed.threads.iter();
        let users = users.filter(|group| group.files == before.name);
        let is_shared = users.clone().any(|group| group.shared);
        let nodes: Vec<NodeId> = users.flat_map(nodes_of_threads).collect();
        let one_node = unique(nodes.clone()).len() == 1;
        if before.medium != MediumKind::Memory || (is_shared && !one_node) {
            continue;
        }
        let files = &mut placed.files[index];
        (files.nodes, files.in_turn) = if one_node {
            (unique(nodes), false)
        } else {
            (nodes, true)
        };
        if !fits(machine, &placed) {
            placed.files[index] = before;
        }
    }
    let mut threads = Threads::of(machine, &placed);
    for index in 0..placed.threads.len() {
        let group = &placed.threads[index];
        let files = placed.files.iter().find(|files| files.name == group.files);
        let home =
            files.filter(|files| files.nodes.len() == 1 && files.medium == MediumKind::Memory);
        let Some(home) = home.map(|files| files.nodes[0]) else {
            continue;
        };
        if group.pinned {
            continue;
        }
        let mut nodes = nodes_of_threads(group);
        for node in nodes.iter_mut().filter(|node| **node != home) {
            if threads.is_idle(home) {
                threads.move_one(*node, home);
                *node = home;
            }
        }
        placed.threads[index].start_nodes = nodes;
    }
    placed
}

/// numad: each process whole to the nodes with the most free CPUs that hold it, the largest first, pages with it. What its
/// owner bound stays.
fn numad(machine: &Machine, workload: &Workload) -> Workload {
    let mut placed = workload.clone();
    let mut order: Vec<usize> = (0..placed.threads.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(placed.threads[*index].count));
    let mut threads = Threads::of(machine, &placed);
    for index in order {
        let before = (placed.threads[index].clone(), placed.files.clone());
        if before.0.pinned {
            continue;
        }
        for node in nodes_of_threads(&before.0) {
            threads.remove(node);
        }
        let nodes = threads.most_free(before.0.count);
        placed.threads[index].start_nodes = nodes.clone();
        let name = before.0.files.clone();
        let memory = placed.files.iter_mut().filter(|files| files.name == name);
        for files in memory.filter(|files| files.medium == MediumKind::Memory) {
            (files.nodes, files.in_turn) = (nodes.clone(), false);
        }
        if !fits(machine, &placed) {
            (placed.threads[index], placed.files) = before;
        }
        for node in nodes_of_threads(&placed.threads[index]) {
            threads.add(node);
        }
    }
    placed
}

/// `numactl --interleave=all`: memory over all nodes that have some; threads stay.
fn interleave(machine: &Machine, workload: &Workload) -> Workload {
    let mut placed = workload.clone();
    let all: Vec<NodeId> = machine.nodes.iter().map(|node| node.id).collect();
    for files in &mut placed.files {
        if files.medium == MediumKind::Memory {
            (files.nodes, files.in_turn) = (all.clone(), false);
        }
    }
    placed
}

/// Threads and cores of each node.
struct Threads {
    nodes: Vec<(NodeId, u64, u64)>,
}

impl Threads {
    fn of(machine: &Machine, workload: &Workload) -> Threads {
        let nodes = machine.nodes.iter();
        let nodes = nodes.map(|node| (node.id, 0, machine.core_count(node) as u64));
        let mut threads = Threads {
            nodes: nodes.collect(),
        };
        for group in &workload.threads {
            for node in nodes_of_threads(group) {
                threads.add(node);
            }
        }
        threads
    }

    fn change(&mut self, node: NodeId, by: i64) {
        if let Some(entry) = self.nodes.iter_mut().find(|entry| entry.0 == node) {
            entry.1 = entry.1.saturating_add_signed(by);
        }
    }

    fn add(&mut self, node: NodeId) {
        self.change(node, 1);
    }

    fn remove(&mut self, node: NodeId) {
        self.change(node, -1);
    }

    fn move_one(&mut self, from: NodeId, to: NodeId) {
        self.remove(from);
        self.add(to);
    }

    fn is_idle(&self, node: NodeId) -> bool {
        let mut entries = self.nodes.iter();
        entries.any(|(id, threads, cores)| *id == node && threads < cores)
    }

    /// The nodes with the most idle cores, as many as these threads need; at least one.
    fn most_free(&self, count: u64) -> Vec<NodeId> {
        let with_cores = self.nodes.iter().filter(|entry| entry.2 > 0);
        let mut free: Vec<(u64, NodeId)> = with_cores
            .map(|(id, threads, cores)| (cores.saturating_sub(*threads), *id))
            .collect();
        free.sort_by_key(|(free, _)| std::cmp::Reverse(*free));
        let (mut nodes, mut left) = (Vec::new(), count);
        for (idle, id) in free {
            if left == 0 || (idle == 0 && !nodes.is_empty()) {
                break;
            }
            nodes.push(id);
            left = left.saturating_sub(idle);
        }
        nodes
    }
}
