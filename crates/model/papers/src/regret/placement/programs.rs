//! Random programs that use memory, some with a fault of placement: where their threads run, and where their memory lies.

use egeria_machine::{Machine, MemoryKind, NodeId};
use egeria_sim::workload::{FileGroup, MediumKind, Phase, ThreadGroup, Workload};
use egeria_sim::{Layout, Pattern};
use egeria_stats::rng::Rng;

/// Machines people have, each of another kind.
pub(super) const MACHINES: [&str; 5] = [
    "dram-2s",
    "xeon-2s-dram",
    "epyc-2s-nps4",
    "bulldozer-8n",
    "epyc-2s-cxl",
];
const MAX_PROGRAMS: u64 = 4;
/// Memory of each node that has some: little, so that programs outgrow it, and what moves arrives in some windows.
pub(super) const ROOM_BYTES: u64 = 4_000_000_000;
const MIN_BYTES: f64 = 1e8;
const MAX_BYTES: f64 = 2e9;
/// Phases come round in this time.
pub(super) const CYCLE_SECONDS: f64 = 20.0;
/// Twenty windows to decide and to move memory, and ten that count.
pub(super) const WINDOW_NS: u64 = 4_000_000_000;
const WARM_UP_SECONDS: f64 = 80.0;
const SECONDS: f64 = 120.0;

/// What is wrong with a program's placement.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fault {
    /// Nothing: threads run where their memory is.
    None,
    /// Threads run on one node, and their memory is on another.
    Apart,
    /// Two programs, each on the node with the other's memory.
    SwappedPrograms,
    /// Two halves of a program, each on the node with the other's memory.
    SwappedGroups,
    /// Threads run on one node, and their memory is spread over all.
    Spread,
    /// Threads run on several nodes, and all memory is on one.
    PiledUp,
    /// Memory is on a node without CPUs.
    FarTier,
    /// More threads than cores run on the node with their memory.
    Crowded,
    /// More memory than a node has; it went on to the next.
    Outgrown,
    /// Several programs on one node, with all their memory.
    SamePlace,
    /// Files in the page cache of another node.
    Cached,
    /// Two programs on two nodes share memory on a third place.
    SharedByPrograms,
}

const FAULTS: [Fault; 12] = [
    Fault::None,
    Fault::Apart,
    Fault::SwappedPrograms,
    Fault::SwappedGroups,
    Fault::Spread,
    Fault::PiledUp,
    Fault::FarTier,
    Fault::Crowded,
    Fault::Outgrown,
    Fault::SamePlace,
    Fault::Cached,
    Fault::SharedByPrograms,
];

impl Fault {
    pub(super) fn name(self) -> &'static str {
        match self {
            Fault::None => "none",
            Fault::Apart => "apart",
            Fault::SwappedPrograms => "swapped programs",
            Fault::SwappedGroups => "swapped groups",
            Fault::Spread => "spread",
            Fault::PiledUp => "piled up",
            Fault::FarTier => "far tier",
            Fault::Crowded => "crowded",
            Fault::Outgrown => "outgrown",
            Fault::SamePlace => "same place",
            Fault::Cached => "page cache elsewhere",
            Fault::SharedByPrograms => "shared by programs",
        }
    }
}

/// The machine with this number, with little memory.
pub(super) fn small(mut machine: Machine) -> Machine {
    for node in &mut machine.nodes {
        let memories = &mut node.hardware.memories;
        if node.memory_bytes > 0 || memories.iter().any(|memory| memory.bytes > 0) {
            node.memory_bytes = ROOM_BYTES;
            for memory in memories {
                memory.bytes = ROOM_BYTES;
            }
        }
    }
    machine
}

/// The programs of this number on that machine, and their faults.
pub(super) fn programs(machine: &Machine, seed: u64, number: u64) -> (Workload, Vec<Fault>) {
    let mut scene = Scene::new(machine, Rng::of(&[seed, number]));
    let (programs, mut faults) = (1 + scene.rng.below(MAX_PROGRAMS), Vec::new());
    while (scene.workload.threads.len() as u64) < programs {
        let fault = *scene.rng.choose(&FAULTS).unwrap_or(&Fault::None);
        faults.push(scene.program(fault));
    }
    scene.workload.name = format!("programs {number}");
    (scene.workload, faults)
}

struct Scene<'a> {
    machine: &'a Machine,
    rng: Rng,
    with_cores: Vec<NodeId>,
    /// Nodes with DRAM.
    near: Vec<NodeId>,
    /// Nodes without CPUs.
    far: Vec<NodeId>,
    /// What is left of each node's memory, bytes, by position.
    room: Vec<f64>,
    workload: Workload,
}

/// Where the parts of a program are.
struct Placed {
    threads: Vec<NodeId>,
    memory: Vec<NodeId>,
    /// Each part of the memory is whole on one of these nodes.
    in_turn: bool,
}

impl<'a> Scene<'a> {
    fn new(machine: &'a Machine, rng: Rng) -> Scene<'a> {
        let ids = |is_meant: &dyn Fn(&egeria_machine::Node) -> bool| -> Vec<NodeId> {
            let nodes = machine.nodes.iter().filter(|node| is_meant(node));
            nodes.map(|node| node.id).collect()
        };
        let is_far = |node: &egeria_machine::Node| {
            let mut memories = node.hardware.memories.iter();
            memories.any(|memory| memory.kind == MemoryKind::Expander)
        };
        let room = machine.nodes.iter().map(|node| match node.memory_bytes {
            0 => f64::INFINITY,
            bytes => bytes as f64,
        });
        Scene {
            with_cores: ids(&|node| machine.core_count(node) > 0),
            near: ids(&|node| !is_far(node)),
            far: ids(&is_far),
            room: room.collect(),
            workload: Workload {
                name: String::new(),
                seconds: SECONDS,
                warm_up_seconds: WARM_UP_SECONDS,
                files: Vec::new(),
                threads: Vec::new(),
            },
            machine,
            rng,
        }
    }

    /// Adds a program with this fault, or with one that the machine can have.
    fn program(&mut self, fault: Fault) -> Fault {
        let [here, there, third] = self.three();
        let cores = self.cores(here);
        let some = self.count(cores);
        let one = |node: NodeId| vec![node];
        match fault {
            Fault::None => self.add(some, one(here), one(here), false),
            Fault::Apart => self.add(some, one(here), one(there), false),
            Fault::SwappedPrograms => {
                self.add(some, one(here), one(there), false);
                let other = self.count(self.cores(there));
                self.add(other, one(there), one(here), false);
            }
            Fault::SwappedGroups => {
                let halves = (some / 2).max(1) * 2;
                self.add(halves, vec![here, there], vec![there, here], true);
            }
            Fault::Spread => self.add(some, one(here), self.near.clone(), false),
            Fault::PiledUp => {
                let nodes = self.some();
                let count = self.count(cores * nodes.len() as u64);
                self.add(count, nodes, one(there), false);
            }
            Fault::FarTier => {
                let Some(far) = self.rng.choose(&self.far).copied() else {
                    return self.program(Fault::Apart);
                };
                self.add(some, one(here), one(far), false);
            }
            Fault::Crowded => {
                let count = cores + self.count(cores);
                self.add(count, one(here), one(here), false);
            }
            Fault::Outgrown => {
                let known = self.room.iter().all(|room| room.is_finite());
                if !known {
                    return self.program(Fault::PiledUp);
                }
                let bytes = ROOM_BYTES as f64 * (1.1 + 0.5 * self.rng.unit());
                self.add_of(some, one(here), vec![here, there], false, bytes);
            }
            Fault::SamePlace => {
                for _ in 0..2 + self.rng.below(2) {
                    let count = self.count(cores);
                    self.add(count, one(here), one(here), false);
                }
            }
            Fault::Cached => {
                self.add(some, one(here), one(there), false);
                if let Some(files) = self.workload.files.last_mut() {
                    files.medium = MediumKind::Storage;
                }
            }
            Fault::SharedByPrograms => self.shared([here, there, third], some),
        }
        fault
    }

    /// Two programs on two nodes use the same memory, which is on the third.
    fn shared(&mut self, [here, there, third]: [NodeId; 3], count: u64) {
        self.add(count, vec![here], vec![third], false);
        let Some(first) = self.workload.threads.last_mut() else {
            return;
        };
        first.shared = true;
        let mut second = first.clone();
        second.name = format!("program {}", self.workload.threads.len());
        second.start_nodes = vec![there];
        second.phases = self.phases();
        self.workload.threads.push(second);
    }

    fn add(&mut self, count: u64, threads: Vec<NodeId>, memory: Vec<NodeId>, in_turn: bool) {
        let bytes = MIN_BYTES * (MAX_BYTES / MIN_BYTES).powf(self.rng.unit());
        self.add_of(count, threads, memory, in_turn, bytes);
    }

    fn add_of(
        &mut self,
        count: u64,
        threads: Vec<NodeId>,
        memory: Vec<NodeId>,
        in_turn: bool,
        bytes: f64,
    ) {
        let placed = Placed {
            threads,
            memory,
            in_turn,
        };
        let bytes = self.take(&placed.memory, bytes);
        let shared = !in_turn && self.rng.one_in(2);
        let parts = if shared { 1 } else { count };
        let name = format!("program {}", self.workload.threads.len());
        self.workload.files.push(FileGroup {
            name: name.clone(),
            count: parts,
            bytes: (bytes / parts as f64).max(1.0) as u64,
            node: None,
            nodes: placed.memory,
            in_turn: placed.in_turn,
            medium: MediumKind::Memory,
            layout: Layout::Local,
        });
        let group = ThreadGroup {
            name: name.clone(),
            count,
            files: name,
            shared,
            start_node: None,
            start_nodes: placed.threads,
            pinned: self.rng.one_in(4),
            lockstep: self.rng.one_in(8),
            phases: self.phases(),
        };
        self.workload.threads.push(group);
    }

    /// As much of these nodes' memory as is there, but some.
    fn take(&mut self, nodes: &[NodeId], bytes: f64) -> f64 {
        let positions = nodes.iter().filter_map(|id| self.machine.index_of(*id));
        let positions: Vec<usize> = positions.collect();
        let least = positions.iter().map(|node| self.room[*node]);
        let least = least.fold(f64::INFINITY, f64::min) * 0.95;
        let each = (bytes / positions.len() as f64).min(least).max(1e6);
        for node in &positions {
            self.room[*node] = (self.room[*node] - each).max(0.0);
        }
        each * positions.len() as f64
    }

    fn cores(&self, node: NodeId) -> u64 {
        let node = self.machine.node(node);
        node.map_or(1, |node| self.machine.core_count(node) as u64)
    }

    /// As many small numbers as large ones.
    fn count(&mut self, most: u64) -> u64 {
        (most as f64).powf(self.rng.unit()).round().max(1.0) as u64
    }

    /// Three nodes with cores, different ones as far as there are.
    fn three(&mut self) -> [NodeId; 3] {
        let mut left = self.with_cores.clone();
        let mut one = || {
            if left.is_empty() {
                left.clone_from(&self.with_cores);
            }
            let index = self.rng.index(left.len());
            left.swap_remove(index)
        };
        [one(), one(), one()]
    }

    fn some(&mut self) -> Vec<NodeId> {
        let all = self.with_cores.clone();
        let some: Vec<NodeId> = all.iter().copied().filter(|_| self.rng.one_in(2)).collect();
        if some.len() < 2 { all } else { some }
    }

    /// Mostly one, for ever; else two in turn.
    fn phases(&mut self) -> Vec<Phase> {
        let first = self.phase();
        if !self.rng.one_in(6) {
            return vec![first];
        }
        let mut both = [first, self.phase()];
        let part = CYCLE_SECONDS * (0.2 + 0.6 * self.rng.unit());
        both[0].seconds = Some(part);
        both[1].seconds = Some(CYCLE_SECONDS - part);
        both.to_vec()
    }

    fn phase(&mut self) -> Phase {
        let rng = &mut self.rng;
        Phase {
            seconds: None,
            read_share: match rng.below(3) {
                0 => rng.unit(),
                _ => 1.0,
            },
            request_bytes: 64 << rng.below(8),
            think_ns: match rng.below(2) {
                0 => 0.0,
                _ => 10.0 * 100f64.powf(rng.unit()),
            },
            pattern: if rng.one_in(2) {
                Pattern::Random
            } else {
                Pattern::Sequential
            },
            at_once: rng.one_in(2),
            ..Phase::default()
        }
    }
}
