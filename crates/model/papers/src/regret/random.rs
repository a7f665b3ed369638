//! Random workloads: what programs may do, where they may start, on every kind of machine.

use egeria_machine::{Machine, MemoryKind, NodeId};
use egeria_sim::workload::{FileGroup, Layout, MediumKind, Phase, ThreadGroup, Workload};
use egeria_sim::{Allocation, Pattern};
use egeria_stats::rng::Rng;

/// Machines of the profiles, each of another kind.
pub(super) const MACHINES: [&str; 9] = [
    "optane-1s",
    "optane-1s-3i",
    "optane-1s-dimc",
    "optane-2s",
    "optane-4s-emulated",
    "odin-8s",
    "bulldozer-8n",
    "epyc-2s-cxl",
    "xeon-2s-dram",
];
const MAX_GROUPS: u64 = 4;
/// Most threads of all groups, as a multiple of the machine's cores.
const MAX_CROWD: f64 = 1.25;
/// Bytes of all files of a group at most, so that every machine has room for them.
const MAX_GROUP_BYTES: f64 = 3e9;
const SECONDS: f64 = 40.0;
/// Decisions need some windows, and undoing them some more.
const WARM_UP_SECONDS: f64 = 16.0;

/// The workload of this number on that machine, and where what it writes goes.
pub(super) fn workload(machine: &Machine, seed: u64, number: u64) -> (Workload, Allocation) {
    let mut rng = Rng::of(&[seed, number]);
    let cores = |node: &&egeria_machine::Node| machine.core_count(node) > 0;
    let scene = Scene {
        cores: machine
            .nodes
            .iter()
            .map(|node| machine.core_count(node) as u64)
            .sum(),
        with_cores: machine
            .nodes
            .iter()
            .filter(cores)
            .map(|node| node.id)
            .collect(),
        with_files: with_files(machine),
    };
    let groups = 1 + rng.below(MAX_GROUPS);
    let most = (scene.cores as f64 * MAX_CROWD / groups as f64) as u64;
    let made = (0..groups).map(|index| scene.group(&mut rng, index, most.max(1)));
    let (files, threads) = made.unzip();
    let workload = Workload {
        name: format!("random {number}"),
        seconds: SECONDS,
        warm_up_seconds: WARM_UP_SECONDS,
        files,
        threads,
    };
    (workload, allocation(&mut rng, machine, &scene.with_files))
}

/// The workload, for as long as decisions need.
pub(super) fn lasting(workload: Workload) -> Workload {
    Workload {
        seconds: workload.seconds.max(SECONDS),
        warm_up_seconds: workload.warm_up_seconds.max(WARM_UP_SECONDS),
        ..workload
    }
}

/// Nodes that new files may lie on: no program puts them behind an expander by itself.
fn with_files(machine: &Machine) -> Vec<NodeId> {
    let is_plain = |node: &&egeria_machine::Node| {
        let memories = &node.hardware.memories;
        let mut expanders = memories
            .iter()
            .map(|memory| memory.kind == MemoryKind::Expander);
        !expanders.any(|is_expander| is_expander)
    };
    machine
        .nodes
        .iter()
        .filter(is_plain)
        .map(|node| node.id)
        .collect()
}

fn allocation(rng: &mut Rng, machine: &Machine, nodes: &[NodeId]) -> Allocation {
    match rng.below(6) {
        0 => Allocation::Spread,
        1 => {
            let node = rng.choose(nodes).and_then(|id| machine.index_of(*id));
            Allocation::Node(node.unwrap_or(0))
        }
        _ => Allocation::Local,
    }
}

struct Scene {
    cores: u64,
    with_cores: Vec<NodeId>,
    with_files: Vec<NodeId>,
}

impl Scene {
    fn group(&self, rng: &mut Rng, index: u64, most: u64) -> (FileGroup, ThreadGroup) {
        // As many small groups as large ones.
        let count = (most as f64).powf(rng.unit()).round().max(1.0) as u64;
        let name = format!("group {index}");
        let is_memory = rng.one_in(3);
        let nodes = match rng.below(4) {
            0 => Vec::new(),
            1 => self.some(rng, &self.with_files),
            _ => self.one(rng, &self.with_files),
        };
        let files_count = if rng.one_in(3) { 1 } else { count };
        let bytes = 1e8 * 30f64.powf(rng.unit());
        let files = FileGroup {
            name: name.clone(),
            count: files_count,
            bytes: bytes.min(MAX_GROUP_BYTES / files_count as f64) as u64,
            node: None,
            nodes,
            in_turn: false,
            medium: if is_memory {
                MediumKind::Memory
            } else {
                MediumKind::Storage
            },
            layout: if !is_memory && rng.one_in(4) {
                Layout::Striped
            } else {
                Layout::Local
            },
        };
        let start_nodes = match rng.below(4) {
            0 => self.one(rng, &self.with_cores),
            1 => self.some(rng, &self.with_cores),
            _ => Vec::new(),
        };
        let threads = ThreadGroup {
            name,
            count,
            files: files.name.clone(),
            shared: rng.one_in(3),
            start_node: None,
            start_nodes,
            pinned: rng.one_in(10),
            lockstep: rng.one_in(8),
            phases: phases(rng),
        };
        (files, threads)
    }

    fn one(&self, rng: &mut Rng, nodes: &[NodeId]) -> Vec<NodeId> {
        rng.choose(nodes).copied().into_iter().collect()
    }

    fn some(&self, rng: &mut Rng, nodes: &[NodeId]) -> Vec<NodeId> {
        let some: Vec<NodeId> = nodes.iter().copied().filter(|_| rng.one_in(2)).collect();
        if some.is_empty() {
            self.one(rng, nodes)
        } else {
            some
        }
    }
}

/// Mostly one, for ever; else two in turn.
fn phases(rng: &mut Rng) -> Vec<Phase> {
    let first = phase(rng);
    if !rng.one_in(5) {
        return vec![first];
    }
    let mut both = [first, phase(rng)];
    for phase in &mut both {
        phase.seconds = Some(2.0 + 10.0 * rng.unit());
    }
    both.to_vec()
}

fn phase(rng: &mut Rng) -> Phase {
    Phase {
        seconds: None,
        read_share: match rng.below(4) {
            0 => 0.0,
            1 => rng.unit(),
            _ => 1.0,
        },
        request_bytes: 64 << rng.below(16),
        think_ns: match rng.below(3) {
            0 => 0.0,
            _ => 100.0 * 1000f64.powf(rng.unit()),
        },
        idle_ns: match rng.below(8) {
            0 => 100.0 * 1000f64.powf(rng.unit()),
            _ => 0.0,
        },
        pattern: if rng.one_in(2) {
            Pattern::Random
        } else {
            Pattern::Sequential
        },
        at_once: rng.one_in(4),
        ..Phase::default()
    }
}
