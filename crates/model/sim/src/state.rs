//! Files and threads while a run goes on.

use std::collections::HashMap;
use std::ops::Range;

use egeria_facts::{CpuSet, ThreadKey};
use egeria_machine::{AccessKind, Node, NodeId};

use crate::file::{File, at_one, in_stripes, new_file, over};
use crate::outcome::Allocation;
use crate::rates::demand::Demand;
use crate::rates::fluid::Rate;
use crate::rates::model::Model;
use crate::rates::passed::Passed;
use crate::workload::{FileGroup, Layout, MediumKind, Phase, ThreadGroup, Workload};

/// Clock ticks of a thread that began with the run.
pub(crate) const START_TICKS: u64 = 1;
/// Ids of processes begin here, so that none looks like init.
pub(crate) const FIRST_PROCESS: u32 = 1000;

pub(crate) struct Thread {
    pub(crate) key: ThreadKey,
    /// Position of its group in the workload, which is its process.
    pub(crate) group: usize,
    pub(crate) name: String,
    /// Position of its node.
    pub(crate) node: usize,
    pub(crate) moves: u32,
    pub(crate) pinned: bool,
    lockstep: bool,
    pub(crate) file: usize,
    phases: Vec<Phase>,
    phase: usize,
    /// Of the phase it is in, s; infinite when it lasts for ever.
    phase_left_s: f64,
    /// It does nothing for so long: it was moved.
    pub(crate) pause_left_s: f64,
    /// Since the window began, from and to each memory.
    pub(crate) read_bytes: Vec<f64>,
    pub(crate) written_bytes: Vec<f64>,
    /// Both, without what caches served.
    pub(crate) missed_bytes: Vec<f64>,
    pub(crate) reads: f64,
    pub(crate) writes: f64,
    pub(crate) busy_s: f64,
}

impl Thread {
    pub(crate) fn phase(&self) -> &Phase {
        &self.phases[self.phase]
    }

    /// Until something about it changes by itself, s.
    pub(crate) fn next_change_s(&self) -> f64 {
        if self.pause_left_s > 0.0 {
            self.pause_left_s
        } else {
            self.phase_left_s
        }
    }

    fn pass(&mut self, seconds: f64) {
        if self.pause_left_s > 0.0 {
            self.pause_left_s = left(self.pause_left_s, seconds);
            return;
        }
        self.phase_left_s = left(self.phase_left_s, seconds);
        if self.phase_left_s <= 0.0 {
            self.phase = (self.phase + 1) % self.phases.len();
            self.phase_left_s = self.phase().seconds.unwrap_or(f64::INFINITY);
        }
    }
}

/// What is left of a time, without a rest that is only rounding.
fn left(of_s: f64, passed_s: f64) -> f64 {
    let left_s = of_s - passed_s;
    if left_s < 1e-12 { 0.0 } else { left_s }
}

/// What is decided about large accesses and small ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Thresholds {
    /// Reads of at least this number of bytes of striped files go to delegates.
    pub(crate) min_read_bytes: u64,
    /// Writes of at least this number of bytes of striped files go to delegates.
    pub(crate) min_write_bytes: u64,
    /// Accesses above this number of bytes wait for their turn.
    pub(crate) bypass_bytes: u64,
}

/// All files and threads.
pub(crate) struct State {
    pub(crate) files: Vec<File>,
    pub(crate) threads: Vec<Thread>,
    allocation: Allocation,
    pub(crate) allowed: CpuSet,
    /// CPUs of each node, for threads that their owner bound.
    pub(crate) cpus: Vec<CpuSet>,
    /// The share of their requests that the CPU lets threads of a group make on a node (MBA).
    pub(crate) bounds: HashMap<(usize, usize), f64>,
}

impl State {
    pub(crate) fn new(model: &Model, workload: &Workload, allocation: Allocation) -> State {
        let machine = &model.machine;
        let set = |node: &Node| node.cpus.iter().copied().collect();
        let cpus: Vec<CpuSet> = machine.nodes.iter().map(set).collect();
        let all = machine.nodes.iter().flat_map(|node| &node.cpus);
        let mut state = State {
            files: Vec::new(),
            threads: Vec::new(),
            allocation,
            allowed: all.copied().collect(),
            cpus,
            bounds: HashMap::new(),
        };
        let mut crowd = vec![0; model.node_count()];
        let mut made: HashMap<&str, Range<usize>> = HashMap::new();
        for files in &workload.files {
            made.insert(
                &files.name,
                state.add_files(model, files, &workload.threads),
            );
        }
        for (index, group) in workload.threads.iter().enumerate() {
            // Looked at when the workload was read.
            if let Some(files) = made.get(&*group.files) {
                state.add_threads(model, (index, group), files, &mut crowd);
            }
        }
        state
    }

    /// The files of a group that are in use; a single one stands for all if all are used alike.
    fn add_files(
        &mut self,
        model: &Model,
        files: &FileGroup,
        threads: &[ThreadGroup],
    ) -> Range<usize> {
        let users = || threads.iter().filter(|group| group.files == files.name);
        let shared = users().any(|group| group.shared);
        let most = users().map(|group| group.count).max().unwrap_or(0);
        let count = if shared { 1 } else { files.count.min(most) };
        let first = self.files.len();
        for number in 0..count as usize {
            let file = new_file(model, files, (number, shared), self.allocation);
            self.files.push(file);
        }
        first..self.files.len()
    }

    fn add_threads(
        &mut self,
        model: &Model,
        (index, group): (usize, &ThreadGroup),
        files: &Range<usize>,
        crowd: &mut [u32],
    ) {
        let starts: Vec<NodeId> = group.start_node.into_iter().collect();
        let starts = [&starts[..], &group.start_nodes].concat();
        let places = model.costs.places.len();
        for number in 0..group.count as usize {
            let start = starts.get(number % starts.len().max(1));
            let start = start.and_then(|id| model.machine.index_of(*id));
            let node = start.unwrap_or_else(|| emptiest(model, crowd));
            crowd[node] += 1;
            let file = files.start + number % files.len().max(1);
            self.files[file].users += 1;
            let key = ThreadKey {
                process_id: FIRST_PROCESS + index as u32,
                thread_id: FIRST_PROCESS * 100 + self.threads.len() as u32,
                start_ticks: START_TICKS,
            };
            self.threads.push(Thread {
                key,
                group: index,
                name: group.name.clone(),
                node,
                moves: 0,
                pinned: group.pinned,
                lockstep: group.lockstep,
                file,
                phases: group.phases.clone(),
                phase: 0,
                phase_left_s: group.phases[0].seconds.unwrap_or(f64::INFINITY),
                pause_left_s: 0.0,
                read_bytes: vec![0.0; places],
                written_bytes: vec![0.0; places],
                missed_bytes: vec![0.0; places],
                reads: 0.0,
                writes: 0.0,
                busy_s: 0.0,
            });
        }
    }

    /// What the threads that run ask for, with their positions.
    pub(crate) fn demands(
        &self,
        model: &Model,
        thresholds: &Thresholds,
    ) -> (Vec<usize>, Vec<Demand>) {
        let runs = |index: &usize| self.threads[*index].pause_left_s <= 0.0;
        let running: Vec<usize> = (0..self.threads.len()).filter(runs).collect();
        let sets = self.working_sets(model, &running);
        let demand = |index: &usize| {
            let thread = &self.threads[*index];
            let (phase, file) = (thread.phase(), &self.files[thread.file]);
            let to = self.written_to(model, thread);
            let scaled = |shares: &[f64], by: f64| shares.iter().map(|share| share * by).collect();
            let is_striped = file.layout == Layout::Striped;
            let is_storage = file.medium == MediumKind::Storage;
            let bytes = phase.request_bytes;
            Demand {
                home: thread.node,
                lockstep: thread.lockstep.then_some(thread.group),
                request_bytes: bytes,
                pattern: phase.pattern,
                at_once: phase.at_once,
                think_ns: phase.think_ns,
                idle_ns: phase.idle_ns,
                lock: (phase.serial_ns > 0.0).then_some(thread.group),
                serial_ns: phase.serial_ns,
                write_overhead: phase.write_overhead,
                reads: scaled(&file.read_shares(model, thread.node), phase.read_share),
                writes: scaled(&to, 1.0 - phase.read_share),
                working_set_bytes: sets[thread.node],
                delegates_reads: is_striped && bytes >= thresholds.min_read_bytes,
                delegates_writes: is_striped && bytes >= thresholds.min_write_bytes,
                bound: self.bound_of(thread),
                takes_turns: is_storage && bytes > thresholds.bypass_bytes,
            }
        };
        let demands = running.iter().map(demand).collect();
        (running, demands)
    }

    /// The share of its requests that the CPU lets a thread make.
    fn bound_of(&self, thread: &Thread) -> f64 {
        let bound = self.bounds.get(&(thread.group, thread.node));
        bound.copied().unwrap_or(1.0)
    }

    /// Share of what a thread writes that goes to each memory.
    fn written_to(&self, model: &Model, thread: &Thread) -> Vec<f64> {
        let (file, places) = (&self.files[thread.file], model.costs.places.len());
        match (file.layout, file.medium, self.allocation) {
            // A program writes its memory where it lies.
            (Layout::Local, MediumKind::Memory, _) | (Layout::Local, _, Allocation::InPlace) => {
                file.shares.clone()
            }
            (Layout::Striped, medium, _) => in_stripes(model, medium),
            (_, medium, Allocation::Spread) => over(&model.places_of(medium), places),
            (_, medium, Allocation::Local | Allocation::Striped) => {
                at_one(model.nearest_place(thread.node, medium), places)
            }
            (_, medium, Allocation::Node(node)) => {
                at_one(model.nearest_place(node, medium), places)
            }
        }
    }

    /// Bytes of the files that the threads of each node read; where its cache has parts, of those that see one of
    /// them: a file that all read is in every part.
    fn working_sets(&self, model: &Model, running: &[usize]) -> Vec<f64> {
        let mut sets = vec![0.0; model.node_count()];
        let mut readers = vec![vec![0usize; self.files.len()]; model.node_count()];
        let mut threads = vec![0usize; model.node_count()];
        for thread in running.iter().map(|index| &self.threads[*index]) {
            if thread.phase().read_share > 0.0 {
                readers[thread.node][thread.file] += 1;
                threads[thread.node] += 1;
            }
        }
        for (node, readers) in readers.iter().enumerate() {
            let parts = model.costs.cache_parts(node, threads[node]);
            for (file, readers) in self.files.iter().zip(readers) {
                let in_parts = (*readers as f64).min(parts);
                sets[node] += file.bytes * in_parts / parts;
            }
        }
        sets
    }

    /// So much time passes at these rates.
    pub(crate) fn pass(
        &mut self,
        model: &Model,
        running: &[usize],
        demands: &[Demand],
        rates: &[Rate],
        seconds: f64,
        groups: usize,
    ) -> Passed {
        let mut passed = Passed::none(model, groups);
        for thread in &self.threads {
            passed.groups[thread.group].thread_s += seconds;
        }
        for ((index, demand), rate) in running.iter().zip(demands).zip(rates) {
            let operations = rate.operations_s * seconds;
            let bytes = operations * demand.request_bytes as f64;
            let thread = &mut self.threads[*index];
            let group = &mut passed.groups[thread.group];
            group.operations += operations;
            group.bytes += bytes;
            thread.busy_s += rate.busy_share * seconds;
            thread.reads += operations * demand.reads.iter().sum::<f64>();
            thread.writes += operations * demand.writes.iter().sum::<f64>();
            let home = thread.node;
            let cached = model.costs.cached_share(home, demand.working_set_bytes);
            for kind in [AccessKind::Read, AccessKind::Write] {
                let shares = demand.shares(kind).iter().enumerate();
                for (place, share) in shares.filter(|(_, share)| **share > 0.0) {
                    let (moved, node) = (bytes * share, model.costs.places[place].node);
                    thread.count(kind, place, moved);
                    self.files[thread.file].count(kind, home, place, moved);
                    passed.local_bytes += if node == home { moved } else { 0.0 };
                    // What a cache serves reaches no memory and no link.
                    let missed = match kind {
                        AccessKind::Read => moved * (1.0 - cached),
                        AccessKind::Write => moved,
                    };
                    passed.count(kind, place, missed);
                    passed.cross(model, (kind, home, place), missed);
                    thread.missed_bytes[place] += missed;
                }
            }
            let written: f64 = demand.writes.iter().sum::<f64>() * bytes;
            if written > 0.0 {
                let sum: f64 = demand.writes.iter().sum();
                let to: Vec<f64> = demand.writes.iter().map(|share| share / sum).collect();
                self.files[thread.file].overwrite(written, &to);
            }
        }
        for thread in &mut self.threads {
            thread.pass(seconds);
        }
        passed
    }

    /// What a memory holds besides the files in it; `None` where its size is not known.
    pub(crate) fn free_bytes(&self, model: &Model, place: usize) -> Option<u64> {
        let bytes = model.costs.places[place].memory.bytes;
        let held = |file: &File| {
            let copies = if file.replicas[place] { 1.0 } else { 0.0 };
            file.bytes * (file.shares[place] + copies)
        };
        let held: f64 = self.files.iter().map(held).sum();
        // The cast saturates.
        (bytes > 0).then(|| bytes.saturating_sub(held.ceil() as u64))
    }

    /// Sets the counters to 0.
    pub(crate) fn begin_window(&mut self) {
        for thread in &mut self.threads {
            thread.read_bytes.fill(0.0);
            thread.written_bytes.fill(0.0);
            thread.missed_bytes.fill(0.0);
            (thread.reads, thread.writes, thread.busy_s) = (0.0, 0.0, 0.0);
        }
        for file in &mut self.files {
            let read: f64 = file.read_bytes.iter().flatten().sum();
            file.heat = (read + file.written_bytes) / file.bytes.max(1.0);
            file.read_bytes.iter_mut().for_each(|row| row.fill(0.0));
            file.written_bytes = 0.0;
        }
    }
}

impl Thread {
    fn count(&mut self, kind: AccessKind, place: usize, bytes: f64) {
        match kind {
            AccessKind::Read => self.read_bytes[place] += bytes,
            AccessKind::Write => self.written_bytes[place] += bytes,
        }
    }
}

/// The node with the fewest threads per core, the first of these.
fn emptiest(model: &Model, crowd: &[u32]) -> usize {
    let load = |node: usize| f64::from(crowd[node]) / model.cores(node);
    let nodes = (0..crowd.len()).filter(|node| model.cores(*node) > 0.0);
    nodes
        .reduce(|best, node| if load(node) < load(best) { node } else { best })
        .unwrap_or(0)
}
