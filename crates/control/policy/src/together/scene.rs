//! A window as this stage sees it: groups of threads, parts of memory, and which group uses which part. Nodes are positions.

use std::collections::{BTreeMap, HashSet};

use egeria_facts::{
    AccessWindow, CpuSet, Facts, MemoryTraffic, NodeAccesses, ProcessAccesses, ProcessKey,
    ThreadFacts, ThreadKey, UNSHARED_SHARE,
};
use egeria_machine::{LINE_BYTES, Machine};

use crate::measures;

/// Processes that are looked at: those that access memory most.
const MOST_PROGRAMS: usize = 32;

/// The groups into which threads of a process on a crowded node are divided, at most.
const MOST_PIECES: usize = 16;
/// A node is crowded if its threads keep more CPUs busy than this share of those it has.
pub(super) const CROWDED: f64 = 1.02;

/// The threads of a process on one node; of a crowded node, some of them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Position in `programs`.
    pub(super) program: usize,
    pub(super) node: usize,
    pub(super) threads: f64,
    /// CPUs that they keep busy.
    pub(super) cpus: f64,
    /// The nodes that all of them may run on.
    pub(super) may_run: Vec<bool>,
    /// All their accesses, per second.
    pub(super) accesses_s: f64,
    /// Which threads they are; empty where that is not known.
    pub(super) keys: Vec<ThreadKey>,
}

/// Memory of a process that is used alike.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) program: usize,
    /// Accesses per second, by position in `groups`.
    pub(super) uses: Vec<(usize, f64)>,
    /// Where the accesses go now: shares by node.
    pub(super) shares: Vec<f64>,
    /// Where it lies, bytes by node.
    pub(super) bytes: Vec<f64>,
    /// Threads may come to it, but it does not go to them.
    pub(super) stays: Option<Stays>,
}

/// What stays where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Stays {
    /// Files that threads read and write with calls, which the stage `relocation` moves.
    File,
    /// Memory that its owner bound or interleaved.
    Fixed,
}

/// A process.
#[derive(Clone, Debug)]
pub(super) struct Program<'a> {
    pub(super) facts: &'a ProcessAccesses,
    pub(super) groups: Vec<usize>,
    pub(super) parts: Vec<usize>,
    /// Whether it is known which of its threads use what.
    pub(super) is_known: bool,
    /// Part of its accesses that cross nodes.
    pub(super) remote_share: f64,
    pub(super) accesses_s: f64,
}

/// The window.
pub(super) struct Scene<'a> {
    pub(super) machine: &'a Machine,
    pub(super) programs: Vec<Program<'a>>,
    pub(super) groups: Vec<Group>,
    pub(super) parts: Vec<Part>,
    /// CPUs of each node that other programs keep busy.
    pub(super) others_cpus: Vec<f64>,
    /// Memory that each node can give, bytes; infinite where it is not known.
    pub(super) room: Vec<f64>,
    /// Traffic of memories that hardware counted.
    pub(super) memories: Vec<MemoryTraffic>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        machine: &'a Machine,
        facts: &Facts,
        window: &'a AccessWindow,
        divided: &dyn Fn(ProcessKey) -> bool,
    ) -> Scene<'a> {
        let mut scene = Scene {
            machine,
            programs: Vec::new(),
            groups: Vec::new(),
            parts: Vec::new(),
            others_cpus: Vec::new(),
            room: room(machine, window),
            memories: facts.memories.clone(),
        };
        let mut processes: Vec<(f64, &ProcessAccesses)> = window
            .processes
            .iter()
            .map(|process| (accesses_s(machine, process), process))
            .filter(|(rate, _)| *rate > 0.0)
            .collect();
        processes.sort_by(|one, other| {
            let by_rate = other.0.total_cmp(&one.0);
            by_rate.then(one.1.process.cmp(&other.1.process))
        });
        processes.truncate(MOST_PROGRAMS);
        processes.sort_by_key(|(_, process)| process.process);
        let mut threads: BTreeMap<(u32, usize), Vec<&ThreadFacts>> = BTreeMap::new();
        for thread in &facts.window.threads {
            if let Some(node) = machine.index_of(thread.node) {
                let key = (thread.key.process_id, node);
                threads.entry(key).or_default().push(thread);
            }
        }
        let crowded: Vec<bool> = (machine.nodes.iter().enumerate())
            .map(|(index, node)| {
                let busy_ns = busy_ns(facts, node);
                let cpus = busy_ns / facts.window.duration_ns.max(1) as f64;
                let own = |each: &&NodeAccesses| machine.index_of(each.node) == Some(index);
                let runnable = processes.iter().flat_map(|(_, process)| &process.nodes);
                let runnable: u32 = runnable.filter(own).map(|each| each.threads).sum();
                cpus.max(f64::from(runnable)) > CROWDED * machine.core_count(node) as f64
            })
            .collect();
        for (_, process) in processes {
            let crowded: Vec<bool> = crowded
                .iter()
                .map(|is_crowded| *is_crowded || divided(process.process))
                .collect();
            scene.add(process, &threads, facts.window.duration_ns, &crowded);
        }
        scene.others_cpus = scene.others(facts);
        scene
    }

    fn add(
        &mut self,
        facts: &'a ProcessAccesses,
        threads: &BTreeMap<(u32, usize), Vec<&ThreadFacts>>,
        duration_ns: u64,
        crowded: &[bool],
    ) {
        let machine = self.machine;
        let program = self.programs.len();
        let first = self.groups.len();
        let mut of_node: Vec<Vec<usize>> = vec![Vec::new(); machine.nodes.len()];
        for each in facts.nodes.iter().filter(|each| each.threads > 0) {
            let Some(node) = machine
                .index_of(each.node)
                .filter(|node| of_node[*node].is_empty())
            else {
                continue;
            };
            let own = threads.get(&(facts.process.process_id, node));
            let own: &[&ThreadFacts] = own.map_or(&[], |own| own);
            let whole = Group {
                program,
                node,
                threads: f64::from(each.threads),
                cpus: cpus(own, each, duration_ns),
                may_run: may_run(machine, node, own, each.pinned),
                accesses_s: total(machine, each),
                keys: own.iter().map(|thread| thread.key).collect(),
            };
            for group in pieces(whole, crowded[node]) {
                of_node[node].push(self.groups.len());
                self.groups.push(group);
            }
        }
        let groups: Vec<usize> = (first..self.groups.len()).collect();
        if groups.is_empty() {
            return;
        }
        let is_known =
            facts.accessors_known || of_node.iter().filter(|own| !own.is_empty()).count() == 1;
        let parts = parts(machine, facts, &of_node, is_known);
        let parts = parts.into_iter().map(|part| Part { program, ..part });
        let first = self.parts.len();
        self.parts.extend(parts);
        let local = measures::local_share(machine, facts, |node| node);
        let memory_s = accesses_s(machine, facts);
        let (mut file_s, mut remote) = (0.0, (1.0 - local.unwrap_or(1.0)) * memory_s);
        for group in &groups {
            let key = (facts.process.process_id, self.groups[*group].node);
            let there = threads.get(&key).map_or(&[][..], |there| there);
            if let Some(part) = files(*group, &self.groups[*group], there, duration_ns) {
                let own_s = part.uses[0].1;
                self.groups[*group].accesses_s += own_s;
                file_s += own_s;
                remote += own_s * (1.0 - part.shares[self.groups[*group].node]);
                self.parts.push(Part { program, ..part });
            }
        }
        self.programs.push(Program {
            facts,
            groups,
            parts: (first..self.parts.len()).collect(),
            is_known,
            remote_share: remote / (memory_s + file_s).max(1e-9),
            accesses_s: memory_s + file_s,
        });
    }

    /// CPUs that programs outside of the scene keep busy.
    fn others(&self, facts: &Facts) -> Vec<f64> {
        let duration_ns = facts.window.duration_ns.max(1) as f64;
        let busy = |index: usize, node: &egeria_machine::Node| {
            let own = self.groups.iter().filter(|group| group.node == index);
            let own: f64 = own.map(|group| group.cpus).sum();
            (busy_ns(facts, node) / duration_ns - own).max(0.0)
        };
        let nodes = self.machine.nodes.iter().enumerate();
        nodes.map(|(index, node)| busy(index, node)).collect()
    }
}

/// How long the CPUs of a node were busy, ns.
fn busy_ns(facts: &Facts, node: &egeria_machine::Node) -> f64 {
    let counted = facts.window.nodes.iter().find(|each| each.node == node.id);
    let counted_ns = counted.map_or(0, |each| each.busy_ns) as f64;
    let threads = facts.window.threads.iter();
    let threads = threads.filter(|thread| thread.node == node.id);
    counted_ns.max(threads.map(|thread| thread.busy_ns as f64).sum())
}

/// The threads of a crowded node in pieces that can go to different nodes.
fn pieces(whole: Group, is_crowded: bool) -> Vec<Group> {
    let count = whole.keys.len();
    let may_move = whole.may_run.iter().filter(|may| **may).count() > 1;
    if !is_crowded || !may_move || count < 2 {
        return vec![whole];
    }
    let size = count.div_ceil(MOST_PIECES);
    let part = |keys: &[ThreadKey]| {
        let share = keys.len() as f64 / count as f64;
        Group {
            threads: whole.threads * share,
            cpus: whole.cpus * share,
            accesses_s: whole.accesses_s * share,
            keys: keys.to_vec(),
            may_run: whole.may_run.clone(),
            ..whole
        }
    };
    whole.keys.chunks(size).map(part).collect()
}

fn room(machine: &Machine, window: &AccessWindow) -> Vec<f64> {
    let of = |node: usize| {
        let known = window.free_bytes.get(node);
        known.map_or(f64::INFINITY, |bytes| *bytes as f64)
    };
    (0..machine.nodes.len()).map(of).collect()
}

fn total(machine: &Machine, each: &NodeAccesses) -> f64 {
    (0..machine.nodes.len())
        .map(|memory| each.rate_to(memory))
        .sum()
}

fn accesses_s(machine: &Machine, facts: &ProcessAccesses) -> f64 {
    facts.nodes.iter().map(|each| total(machine, each)).sum()
}

/// CPUs that a group keeps busy; without its threads in the window, one each.
fn cpus(threads: &[&ThreadFacts], each: &NodeAccesses, duration_ns: u64) -> f64 {
    let busy_ns: f64 = threads.iter().map(|thread| thread.busy_ns as f64).sum();
    let cpus = busy_ns / duration_ns.max(1) as f64;
    if cpus > 0.0 {
        cpus
    } else {
        f64::from(each.threads)
    }
}

/// The nodes that all threads of a group may run on: its own at least.
fn may_run(machine: &Machine, own: usize, threads: &[&ThreadFacts], pinned: bool) -> Vec<bool> {
    let is_bound = pinned || threads.iter().any(|thread| thread.pinned);
    let may = |(index, node): (usize, &egeria_machine::Node)| {
        if index == own || is_bound {
            return index == own;
        }
        let takes_any = machine.is_emulated() && node.cpus.is_empty();
        let cpus: CpuSet = node.cpus.iter().copied().collect();
        let each = |thread: &&ThreadFacts| takes_any || thread.allowed_cpus.intersects(&cpus);
        machine.core_count(node) > 0 && threads.iter().all(each)
    };
    machine.nodes.iter().enumerate().map(may).collect()
}

/// What threads of a group read and write of files with calls, in lines of a cache; `None` if nothing.
fn files(index: usize, group: &Group, threads: &[&ThreadFacts], duration_ns: u64) -> Option<Part> {
    let keys: HashSet<ThreadKey> = group.keys.iter().copied().collect();
    let own = threads.iter().filter(|thread| keys.contains(&thread.key));
    let mut lines = vec![0.0; group.may_run.len()];
    for thread in own {
        for bytes in [&thread.read_bytes, &thread.written_bytes] {
            for (sum, bytes) in lines.iter_mut().zip(bytes) {
                *sum += *bytes as f64 / LINE_BYTES as f64;
            }
        }
    }
    let sum: f64 = lines.iter().sum();
    let rate = sum * 1e9 / duration_ns.max(1) as f64;
    (rate > 0.0).then(|| Part {
        program: group.program,
        uses: vec![(index, rate)],
        bytes: vec![0.0; lines.len()],
        shares: lines.iter().map(|lines| lines / sum).collect(),
        stays: Some(Stays::File),
    })
}

/// Memory by the groups that use it. Without known accessors, all threads use all of it.
fn parts(
    machine: &Machine,
    facts: &ProcessAccesses,
    of_node: &[Vec<usize>],
    is_known: bool,
) -> Vec<Part> {
    let nodes = machine.nodes.len();
    let resident = |memory: usize| -> f64 {
        let there = facts.nodes.iter();
        let there = there.filter(|each| machine.index_of(each.node) == Some(memory));
        there.map(|each| each.resident_bytes as f64).sum()
    };
    if is_known
        && facts
            .regions
            .iter()
            .any(|region| !region.accesses_s.is_empty())
    {
        return of_regions(facts, of_node, nodes);
    }
    let mut by_memory = vec![0.0; nodes];
    for each in &facts.nodes {
        for (memory, sum) in by_memory.iter_mut().enumerate() {
            *sum += each.rate_to(memory);
        }
    }
    let mut groups: Vec<(usize, Vec<f64>)> = Vec::new();
    for each in &facts.nodes {
        let own = machine
            .index_of(each.node)
            .map_or(&[][..], |node| &of_node[node]);
        for group in own {
            let part = 1.0 / own.len() as f64;
            let rates = (0..nodes).map(|memory| each.rate_to(memory) * part);
            groups.push((*group, rates.collect()));
        }
    }
    if is_known {
        // What several groups access of one memory is divided among them by how often they do.
        let of_one = |(group, rates): (usize, Vec<f64>)| {
            let all: f64 = rates.iter().sum();
            let bytes = rates.iter().zip(&by_memory).enumerate();
            let bytes = bytes.map(|(memory, (rate, all))| {
                resident(memory) * if *all > 0.0 { rate / all } else { 0.0 }
            });
            Part {
                program: 0,
                uses: vec![(group, all)],
                bytes: bytes.collect(),
                shares: rates.iter().map(|rate| rate / all.max(1e-9)).collect(),
                stays: None,
            }
        };
        return groups.into_iter().map(of_one).collect();
    }
    let uses = |part: f64| {
        let uses = groups.iter();
        let uses = uses.map(|(group, rates)| (*group, rates.iter().sum::<f64>() * part));
        uses.collect()
    };
    let shares = |rates: &[f64]| {
        let all: f64 = rates.iter().sum();
        rates.iter().map(|rate| rate / all.max(1e-9)).collect()
    };
    let fixed = Fixed::of(facts, nodes);
    let fixed_part = fixed.accesses.iter().sum::<f64>() / by_memory.iter().sum::<f64>().max(1e-9);
    let fixed_part = fixed_part.min(1.0);
    let rest: Vec<f64> = (by_memory.iter().zip(&fixed.accesses))
        .map(|(all, fixed)| (all - fixed).max(0.0))
        .collect();
    let rest_bytes = (0..nodes).map(|memory| (resident(memory) - fixed.bytes[memory]).max(0.0));
    let parts = [
        Part {
            program: 0,
            uses: uses(1.0 - fixed_part),
            shares: shares(&rest),
            bytes: rest_bytes.collect(),
            stays: None,
        },
        Part {
            program: 0,
            uses: uses(fixed_part),
            shares: shares(&fixed.accesses),
            bytes: fixed.bytes,
            stays: Some(Stays::Fixed),
        },
    ];
    let is_used = |part: &Part| part.uses.iter().any(|(_, rate)| *rate > 0.0);
    parts.into_iter().filter(is_used).collect()
}

/// Memory of a process that does not move, by node.
struct Fixed {
    /// Accesses to it, per second.
    accesses: Vec<f64>,
    bytes: Vec<f64>,
}

impl Fixed {
    fn of(facts: &ProcessAccesses, nodes: usize) -> Fixed {
        let mut fixed = Fixed {
            accesses: vec![0.0; nodes],
            bytes: vec![0.0; nodes],
        };
        for region in facts.regions.iter().filter(|region| region.is_fixed) {
            let rate: f64 = region.accesses_s.iter().sum();
            let bytes = region.resident_bytes.iter().map(|bytes| *bytes as f64);
            let all_bytes = bytes.clone().sum::<f64>().max(1.0);
            for (node, bytes) in bytes.enumerate().take(nodes) {
                fixed.bytes[node] += bytes;
                fixed.accesses[node] += rate * bytes / all_bytes;
            }
        }
        fixed
    }
}

/// Regions that one node uses, by node, and those that several share, by these nodes.
fn of_regions(facts: &ProcessAccesses, of_node: &[Vec<usize>], nodes: usize) -> Vec<Part> {
    let mut classes: BTreeMap<(Vec<usize>, bool), Part> = BTreeMap::new();
    for region in &facts.regions {
        let rate = |node: usize| region.accesses_s.get(node).copied().unwrap_or(0.0);
        let all: f64 = (0..nodes).map(rate).sum();
        let bytes = |node: usize| {
            region
                .resident_bytes
                .get(node)
                .map_or(0.0, |bytes| *bytes as f64)
        };
        let all_bytes: f64 = (0..nodes).map(bytes).sum();
        if all <= 0.0 || all_bytes <= 0.0 {
            continue;
        }
        let owner = (0..nodes).find(|node| rate(*node) >= UNSHARED_SHARE * all);
        let users: Vec<usize> = match owner {
            Some(node) => vec![node],
            None => (0..nodes).filter(|node| rate(*node) > 0.0).collect(),
        };
        let class = (users, region.is_fixed);
        let part = classes.entry(class).or_insert_with(|| Part {
            program: 0,
            uses: Vec::new(),
            shares: vec![0.0; nodes],
            bytes: vec![0.0; nodes],
            stays: region.is_fixed.then_some(Stays::Fixed),
        });
        for (node, groups) in of_node.iter().enumerate() {
            part.bytes[node] += bytes(node);
            part.shares[node] += all * bytes(node) / all_bytes;
            for group in groups.iter().filter(|_| rate(node) > 0.0) {
                let own = rate(node) / groups.len() as f64;
                match part.uses.iter_mut().find(|(other, _)| other == group) {
                    Some((_, sum)) => *sum += own,
                    None => part.uses.push((*group, own)),
                }
            }
        }
    }
    let mut parts: Vec<Part> = classes.into_values().collect();
    for part in &mut parts {
        let all: f64 = part.shares.iter().sum();
        part.shares.iter_mut().for_each(|share| *share /= all);
    }
    parts.retain(|part| !part.uses.is_empty());
    parts
}
