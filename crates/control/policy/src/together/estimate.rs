//! How fast groups of threads would be at other places: latencies, and shares of memories, links and CPUs.
//!
//! A thread's access takes its own time, and the latency of the memory as far as the thread waits for it; both follow
//! from the measured rate. What all groups ask for is then fitted into what memories, lanes and CPUs can give, in
//! max-min fair shares. That is less than the model of the crate `sim` knows, and all that a window of facts supports.

use egeria_machine::costs::AccessCosts;
use egeria_machine::fair::{Flow, max_min_shares};
use egeria_machine::{LINE_BYTES, Machine, Memory, MemoryKind, NodeId};

use super::scene::{CROWDED, Scene};
use super::state::State;
use crate::asymsched::{LoadSource, TierMove};

/// Latency of local memory where nothing is known of it (assumed), ns.
const LATENCY_NS: f64 = 90.0;
/// From this part of what a resource can give, threads wait for each other there.
const BUSY: f64 = 0.8;
/// A memory is never taken to be fuller than this.
const FULL: f64 = 0.98;
/// How much faster threads would be that wait for a busy resource, at most (assumed).
const RELIEF: f64 = 3.0;

/// What a machine's nodes can do for each other.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    nodes: usize,
    /// By node of the thread, then of the memory, ns.
    latency_ns: Vec<f64>,
    /// Memories, then lanes, then CPUs.
    capacities: Vec<f64>,
    /// What a byte counts at a memory, by node of the thread, then of the memory.
    weight: Vec<f64>,
    /// Lanes from memory to thread, by node of the thread, then of the memory.
    lanes: Vec<Vec<usize>>,
    groups: Vec<Pace>,
    /// Of each memory: the part of what it can give that is used now, and what says it.
    loads: Vec<(f64, LoadSource)>,
    /// Of each node, the slower ones of its group.
    slower: Vec<Vec<usize>>,
}

/// What a group's accesses take.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Of its own, ns.
    think_ns: f64,
    /// The part of a latency for which a thread waits.
    waits: f64,
    /// CPUs of a thread.
    cpus: f64,
}

impl Estimate {
    pub(super) fn new(scene: &Scene<'_>) -> Estimate {
        let machine = scene.machine;
        let costs = AccessCosts::of(machine);
        let nodes = machine.nodes.len();
        let memories: Vec<Option<&Memory>> = (0..nodes).map(|node| memory(&costs, node)).collect();
        let pairs = || (0..nodes).flat_map(|home| (0..nodes).map(move |memory| (home, memory)));
        let latency = |(home, memory): (usize, usize)| {
            latency_ns(machine, &costs, memories[memory], home, memory)
        };
        let weight = |(home, memory): (usize, usize)| {
            let factor = memories[memory].map_or(1.0, |memory| memory.remote_read_bandwidth_factor);
            if home == memory {
                1.0
            } else {
                1.0 / factor.max(0.01)
            }
        };
        let way = |(home, memory): (usize, usize)| {
            let paths = costs.paths.as_ref();
            let way = paths.map_or(&[][..], |paths| paths.way(memory, home));
            way.iter().map(|lane| nodes + lane).collect()
        };
        let mut capacities: Vec<f64> = (0..nodes).map(|node| bytes_s(memories[node])).collect();
        capacities.extend(costs.lanes().iter().map(|lane| lane.bytes_s));
        for (node, each) in machine.nodes.iter().enumerate() {
            let others = scene.others_cpus.get(node).copied().unwrap_or(0.0);
            capacities.push((machine.core_count(each) as f64 - others).max(0.01));
        }
        let mut estimate = Estimate {
            nodes,
            latency_ns: pairs().map(latency).collect(),
            weight: pairs().map(weight).collect(),
            lanes: pairs().map(way).collect(),
            capacities,
            groups: Vec::new(),
            loads: Vec::new(),
            slower: (0..nodes).map(|node| machine.slower_nodes(node)).collect(),
        };
        estimate.pace(scene);
        estimate
    }

    /// What a memory can give compared with others; all alike where that is not known of all.
    pub(super) fn weight_of(&self, node: usize) -> f64 {
        let memories = &self.capacities[..self.nodes];
        if memories.iter().all(|bytes_s| bytes_s.is_finite()) {
            memories[node]
        } else {
            1.0
        }
    }

    /// Fits each group's pace to its measured rate.
    fn pace(&mut self, scene: &Scene<'_>) {
        let now = State::now(scene);
        let mut used = vec![0.0; self.capacities.len()];
        let mut uses_of = Vec::new();
        for (index, group) in scene.groups.iter().enumerate() {
            let access = self.access(scene, &now, index);
            for (resource, amount) in &access.uses {
                used[*resource] += amount * group.accesses_s;
            }
            uses_of.push(access);
        }
        let load = |node: usize| self.load(scene, node, used[node]);
        self.loads = (0..self.nodes).map(load).collect();
        for (group, access) in scene.groups.iter().zip(&uses_of) {
            let measured_ns = group.threads * 1e9 / group.accesses_s.max(1e-3);
            let is_held =
                |(resource, _): &(usize, f64)| used[*resource] > BUSY * self.capacities[*resource];
            let own_ns = if access.uses.iter().any(is_held) {
                measured_ns / RELIEF
            } else {
                measured_ns
            };
            let waits = (own_ns / access.latency_ns.max(1e-3)).min(1.0);
            self.groups.push(Pace {
                think_ns: (own_ns - access.latency_ns).max(0.0),
                waits,
                cpus: (group.cpus / group.threads).clamp(0.01, 1.0),
            });
        }
    }

    /// What one access of a group uses, but for CPUs.
    fn access(&self, scene: &Scene<'_>, state: &State, group: usize) -> Access {
        let home = state.nodes[group];
        let own = &scene.groups[group];
        let mut to = vec![0.0; self.nodes];
        for part in &scene.programs[own.program].parts {
            let uses = scene.parts[*part].uses.iter();
            let rate: f64 = uses
                .filter(|(user, _)| *user == group)
                .map(|(_, rate)| rate)
                .sum();
            for (memory, share) in state.shares(scene, *part).iter().enumerate() {
                to[memory] += share * rate / own.accesses_s.max(1e-9);
            }
        }
        let (mut latency_ns, mut uses) = (0.0, Vec::new());
        for (memory, share) in to.iter().enumerate().filter(|(_, share)| **share > 0.0) {
            let pair = home * self.nodes + memory;
            latency_ns += share * self.latency_ns[pair];
            let bytes = share * LINE_BYTES as f64;
            uses.push((memory, bytes * self.weight[pair]));
            uses.extend(self.lanes[pair].iter().map(|lane| (*lane, bytes)));
        }
        Access { latency_ns, uses }
    }

    /// The load of a memory: as counted by hardware, or as seen of processes, the larger of both.
    fn load(&self, scene: &Scene<'_>, node: usize, seen_s: f64) -> (f64, LoadSource) {
        let id = scene.machine.nodes[node].id;
        let counted = scene.memories.iter().filter(|memory| memory.node == id);
        let counted_s: f64 = counted
            .map(|memory| memory.read_bytes_s + memory.written_bytes_s)
            .sum();
        let source = if counted_s > seen_s {
            LoadSource::Counters
        } else {
            LoadSource::Accesses
        };
        (counted_s.max(seen_s) / self.capacities[node], source)
    }

    /// What an access takes without load, ns.
    pub(super) fn idle_ns(&self, home: usize, memory: usize) -> f64 {
        self.latency_ns[home * self.nodes + memory]
    }

    /// What an access takes under the present load and this number of accesses per second more, ns: requests that come
    /// at random wait for those before them, each for as long as one is served (M/D/1).
    fn loaded_ns(&self, home: usize, memory: usize, more_s: f64) -> f64 {
        let more = more_s * LINE_BYTES as f64 / self.capacities[memory];
        let load = (self.loads[memory].0 + more).min(FULL);
        self.idle_ns(home, memory) * (1.0 + load / (2.0 * (1.0 - load)))
    }

    /// Whether a node's own memory is faster than another's if it gets this number of accesses per second more.
    pub(super) fn is_faster(&self, near: usize, far: usize, more_s: f64) -> bool {
        self.loaded_ns(near, near, more_s) < self.loaded_ns(near, far, 0.0)
    }

    /// Slower nodes of a node's group that are faster under the present load.
    pub(super) fn relief(&self, near: usize) -> impl Iterator<Item = usize> {
        let far = self.slower[near].iter().copied();
        far.filter(move |far| !self.is_faster(near, *far, 0.0))
    }

    /// Whether a node is a slower one of others, and is slower than these under the present load, too.
    pub(super) fn is_slower(&self, node: usize) -> bool {
        let mut of = (0..self.nodes)
            .filter(|near| self.slower[*near].contains(&node))
            .peekable();
        of.peek().is_some() && of.all(|near| self.is_faster(near, node, 0.0))
    }

    /// Whether memory that goes so goes from tier to tier: down, as pages are balanced, or up.
    pub(super) fn tier_move(
        &self,
        scene: &Scene<'_>,
        copies: &[(NodeId, NodeId, u64)],
    ) -> Option<TierMove> {
        let machine = scene.machine;
        let ends =
            |copy: &(NodeId, NodeId, u64)| machine.index_of(copy.0).zip(machine.index_of(copy.1));
        let is_slower = |near: usize, far: usize| self.slower[near].contains(&far);
        let mut down = copies.iter().filter_map(ends);
        if let Some((near, far)) = down.find(|(from, to)| is_slower(*from, *to)) {
            return Some(TierMove::Balanced {
                near_ns: self.loaded_ns(near, near, 0.0),
                far_ns: self.loaded_ns(near, far, 0.0),
                load: self.loads[near].1,
            });
        }
        let mut up = copies.iter().filter_map(ends);
        let (_, near) = up.find(|(from, to)| is_slower(*to, *from))?;
        let free_bytes = scene.room[near] as u64;
        Some(TierMove::Promoted { free_bytes })
    }

    /// Accesses per second of each group.
    pub(super) fn rates(&self, scene: &Scene<'_>, state: &State) -> Vec<f64> {
        let cpus = self.capacities.len() - self.nodes;
        let flow = |group: usize| {
            let Access {
                latency_ns,
                mut uses,
            } = self.access(scene, state, group);
            let pace = self.groups[group];
            let takes_ns = (pace.think_ns + pace.waits * latency_ns).max(1e-3);
            uses.push((cpus + state.nodes[group], takes_ns / 1e9 * pace.cpus));
            let most = scene.groups[group].threads * 1e9 / takes_ns;
            Flow {
                uses,
                most,
                weight: most,
            }
        };
        let flows: Vec<Flow> = (0..scene.groups.len()).map(flow).collect();
        max_min_shares(&self.capacities, &flows)
    }

    /// How far other programs fill the memory and the CPUs of each node, the fuller of both; as a share.
    pub(super) fn load_of_others(
        &self,
        scene: &Scene<'_>,
        state: &State,
        program: usize,
    ) -> Vec<f64> {
        let rates = self.rates(scene, state);
        let mut used = vec![0.0; self.capacities.len()];
        let cpus = self.capacities.len() - self.nodes;
        let others = scene.groups.iter().enumerate();
        for (index, group) in others.filter(|(_, group)| group.program != program) {
            for (resource, amount) in &self.access(scene, state, index).uses {
                used[*resource] += amount * rates[index];
            }
            used[cpus + state.nodes[index]] += group.cpus;
        }
        let share = |resource: usize| used[resource] / self.capacities[resource];
        (0..self.nodes)
            .map(|node| share(node).max(share(cpus + node)))
            .collect()
    }

    /// Whether a memory, lane or CPU that a program uses is busy.
    pub(super) fn is_busy(&self, scene: &Scene<'_>, state: &State, program: usize) -> bool {
        let rates = self.rates(scene, state);
        let mut used = vec![0.0; self.capacities.len()];
        let mut own = Vec::new();
        let cpus = self.capacities.len() - self.nodes;
        for (index, rate) in rates.iter().enumerate() {
            let access = self.access(scene, state, index);
            for (resource, amount) in &access.uses {
                used[*resource] += amount * rate;
            }
            let group = &scene.groups[index];
            used[cpus + state.nodes[index]] += group.threads * self.groups[index].cpus;
            if group.program == program {
                own.extend(access.uses.iter().map(|(resource, _)| *resource));
                own.push(cpus + state.nodes[index]);
            }
        }
        let is_busy = |resource: &usize| used[*resource] > BUSY * self.capacities[*resource];
        let is_crowded = |resource: &usize| used[*resource] > CROWDED * self.capacities[*resource];
        own.iter().any(|resource| {
            if *resource < cpus {
                is_busy(resource)
            } else {
                is_crowded(resource)
            }
        })
    }
}

struct Access {
    latency_ns: f64,
    /// Of resources, per access.
    uses: Vec<(usize, f64)>,
}

/// The memory of a node that programs get: DRAM, or what there is.
fn memory(costs: &AccessCosts, node: usize) -> Option<&Memory> {
    let kinds = [
        MemoryKind::Dram,
        MemoryKind::Expander,
        MemoryKind::Persistent,
    ];
    let place = kinds
        .into_iter()
        .find_map(|kind| costs.place_of_kind(node, kind))?;
    Some(&costs.places[place].memory)
}

fn latency_ns(
    machine: &Machine,
    costs: &AccessCosts,
    known: Option<&Memory>,
    home: usize,
    memory: usize,
) -> f64 {
    let own_ns = known.map_or(LATENCY_NS, |known| known.read_latency_ns);
    if home == memory {
        return own_ns;
    }
    let factor = known.map_or(1.0, |known| {
        let of_reads = known.remote_read_latency_factor;
        of_reads.unwrap_or(known.remote_latency_factor)
    });
    let path_ns = costs.path_ns(home, memory);
    if path_ns > 0.0 || factor > 1.0 {
        return own_ns * factor + path_ns;
    }
    if known.is_some() && costs.paths.is_some() {
        return own_ns;
    }
    own_ns * machine.distance_factor(home, memory)
}

/// What a memory gives to reads and writes alike; without figures nothing is known to be busy.
fn bytes_s(known: Option<&Memory>) -> f64 {
    known.map_or(f64::INFINITY, |memory| {
        f64::midpoint(memory.read_bytes_s, memory.write_bytes_s)
    })
}
