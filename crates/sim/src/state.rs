//! Files and threads while a run goes on.

use egeria_machine::{Machine, Node, NodeId};
use egeria_window::{CpuSet, FileKey, FileUse, ThreadFacts, ThreadKey};

use crate::fluid::{Demand, Rate};
use crate::model::Model;
use crate::run::Allocation;
use crate::workload::{FileGroup, Phase, ThreadGroup, Workload};

/// Clock ticks of a thread that began with the run.
const START_TICKS: u64 = 1;
/// Ids of processes begin here, so that none looks like init.
const FIRST_PROCESS: u32 = 1000;

/// One file, or files that several threads use alike.
pub(crate) struct File {
    pub(crate) bytes: f64,
    /// Share of its data on each node.
    pub(crate) shares: Vec<f64>,
    /// Threads that use it.
    pub(crate) users: u32,
}

impl File {
    /// `written` bytes at random offsets now lie as `to` says.
    pub(crate) fn overwrite(&mut self, written: f64, to: &[f64]) {
        // Of what is written at random, some is written twice.
        let fresh = 1.0 - (-written / self.bytes).exp();
        for (share, to) in self.shares.iter_mut().zip(to) {
            *share += (to - *share) * fresh;
        }
    }
}

pub(crate) struct Thread {
    pub(crate) key: ThreadKey,
    pub(crate) name: String,
    /// Position of its node.
    pub(crate) node: usize,
    pub(crate) displaced_from: Option<NodeId>,
    pub(crate) moves: u32,
    pinned: bool,
    file: usize,
    phases: Vec<Phase>,
    phase: usize,
    /// Of the phase it is in, s; infinite when it lasts for ever.
    phase_left_s: f64,
    /// It does nothing for so long: it was moved.
    pub(crate) pause_left_s: f64,
    /// Since the window began.
    read_bytes: Vec<f64>,
    written_bytes: Vec<f64>,
    busy_s: f64,
}

impl Thread {
    fn phase(&self) -> &Phase {
        &self.phases[self.phase]
    }

    /// Until something about it changes by itself, s.
    pub(crate) fn next_change_s(&self) -> f64 {
        match self.pause_left_s > 0.0 {
            true => self.pause_left_s,
            false => self.phase_left_s,
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

/// All files and threads.
pub(crate) struct State {
    pub(crate) files: Vec<File>,
    pub(crate) threads: Vec<Thread>,
    allocation: Allocation,
    allowed: CpuSet,
    /// CPUs of each node, for those whose owner bound them.
    cpus: Vec<CpuSet>,
}

/// Bytes that went to or from each node's memory in a step, and operations.
pub(crate) struct Passed {
    pub(crate) read_bytes: Vec<f64>,
    pub(crate) written_bytes: Vec<f64>,
    pub(crate) local_bytes: f64,
    pub(crate) operations: f64,
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
        };
        let mut crowd = vec![0; model.node_count()];
        for (index, group) in workload.threads.iter().enumerate() {
            let process_id = FIRST_PROCESS + index as u32;
            state.add_threads(model, workload, group, process_id, &mut crowd);
        }
        state
    }

    fn add_threads(
        &mut self,
        model: &Model,
        workload: &Workload,
        group: &ThreadGroup,
        process_id: u32,
        crowd: &mut [u32],
    ) {
        let named = workload
            .files
            .iter()
            .find(|files| files.name == group.files);
        let Some(files) = named else { return };
        let first = self.files.len();
        let count = if group.shared { 1 } else { files.count };
        for _ in 0..count.min(group.count) {
            self.files.push(new_file(
                &model.machine,
                files,
                group.shared,
                self.allocation,
            ));
        }
        let made = self.files.len() - first;
        for number in 0..group.count {
            let start = group.start_node.and_then(|id| model.machine.index_of(id));
            let node = start.unwrap_or_else(|| emptiest(model, crowd));
            crowd[node] += 1;
            let file = first + number as usize % made;
            self.files[file].users += 1;
            let key = ThreadKey {
                process_id,
                thread_id: FIRST_PROCESS * 100 + self.threads.len() as u32,
                start_ticks: START_TICKS,
            };
            self.threads.push(Thread {
                key,
                name: group.name.clone(),
                node,
                displaced_from: None,
                moves: 0,
                pinned: group.pinned,
                file,
                phases: group.phases.clone(),
                phase: 0,
                phase_left_s: group.phases[0].seconds.unwrap_or(f64::INFINITY),
                pause_left_s: 0.0,
                read_bytes: vec![0.0; model.node_count()],
                written_bytes: vec![0.0; model.node_count()],
                busy_s: 0.0,
            });
        }
    }

    /// What the threads that run ask for, with their positions.
    pub(crate) fn demands(&self, model: &Model) -> (Vec<usize>, Vec<Demand>) {
        let runs = |index: &usize| self.threads[*index].pause_left_s <= 0.0;
        let running: Vec<usize> = (0..self.threads.len()).filter(runs).collect();
        let sets = self.working_sets(model, &running);
        let demand = |index: &usize| {
            let thread = &self.threads[*index];
            let (phase, file) = (thread.phase(), &self.files[thread.file]);
            let to = self.allocation.shares(thread.node, model.node_count());
            let scaled = |shares: &[f64], by: f64| shares.iter().map(|share| share * by).collect();
            Demand {
                home: thread.node,
                request_bytes: phase.request_bytes,
                think_ns: phase.think_ns,
                idle_ns: phase.idle_ns,
                reads: scaled(&file.shares, phase.read_share),
                writes: scaled(&to, 1.0 - phase.read_share),
                working_set_bytes: sets[thread.node],
            }
        };
        let demands = running.iter().map(demand).collect();
        (running, demands)
    }

    /// Bytes of the files that the threads of each node read.
    fn working_sets(&self, model: &Model, running: &[usize]) -> Vec<f64> {
        let mut sets = vec![0.0; model.node_count()];
        let mut seen = vec![vec![false; self.files.len()]; model.node_count()];
        for thread in running.iter().map(|index| &self.threads[*index]) {
            let seen = &mut seen[thread.node][thread.file];
            if thread.phase().read_share > 0.0 && !*seen {
                *seen = true;
                sets[thread.node] += self.files[thread.file].bytes;
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
    ) -> Passed {
        let nodes = model.node_count();
        let mut passed = Passed {
            read_bytes: vec![0.0; nodes],
            written_bytes: vec![0.0; nodes],
            local_bytes: 0.0,
            operations: 0.0,
        };
        for ((index, demand), rate) in running.iter().zip(demands).zip(rates) {
            let operations = rate.operations_s * seconds;
            let bytes = operations * demand.request_bytes as f64;
            passed.operations += operations;
            let thread = &mut self.threads[*index];
            thread.busy_s += rate.busy_share * seconds;
            for node in 0..nodes {
                let (read, written) = (bytes * demand.reads[node], bytes * demand.writes[node]);
                thread.read_bytes[node] += read;
                thread.written_bytes[node] += written;
                passed.read_bytes[node] += read;
                passed.written_bytes[node] += written;
            }
            passed.local_bytes += bytes * (demand.reads[thread.node] + demand.writes[thread.node]);
            let written: f64 = demand.writes.iter().sum::<f64>() * bytes;
            let to = self.allocation.shares(thread.node, nodes);
            self.files[thread.file].overwrite(written, &to);
        }
        for thread in &mut self.threads {
            thread.pass(seconds);
        }
        passed
    }

    /// What the policy is told of the threads; their counters begin anew.
    pub(crate) fn facts(&mut self, machine: &Machine) -> Vec<ThreadFacts> {
        let files = &self.files;
        let (allowed, cpus) = (&self.allowed, &self.cpus);
        let facts = self.threads.iter_mut().map(|thread| {
            let take = |bytes: &mut Vec<f64>| -> Vec<u64> {
                bytes
                    .iter_mut()
                    .map(|bytes| std::mem::take(bytes) as u64)
                    .collect()
            };
            let (read_bytes, written_bytes) = (
                take(&mut thread.read_bytes),
                take(&mut thread.written_bytes),
            );
            let file = FileUse {
                file: FileKey {
                    volume: 0,
                    inode: thread.file as u64 + 1,
                },
                read_bytes: read_bytes.iter().sum(),
                written_bytes: written_bytes.iter().sum(),
            };
            let set = if thread.pinned {
                &cpus[thread.node]
            } else {
                allowed
            };
            let id = machine.nodes[thread.node].id;
            ThreadFacts {
                name: thread.name.clone(),
                pinned: thread.pinned,
                busy_ns: (std::mem::take(&mut thread.busy_s) * 1e9) as u64,
                is_shared: files[thread.file].users > 1,
                files: vec![file],
                displaced_from: thread.displaced_from,
                read_bytes,
                written_bytes,
                ..ThreadFacts::idle(thread.key, id, cpus.len(), set.clone())
            }
        });
        facts.collect()
    }
}

fn new_file(machine: &Machine, group: &FileGroup, shared: bool, allocation: Allocation) -> File {
    let nodes = machine.nodes.len();
    let shares = match (allocation, group.node.and_then(|id| machine.index_of(id))) {
        // A system that spreads all data has spread this too.
        (Allocation::Spread, _) | (_, None) => vec![1.0 / nodes as f64; nodes],
        (_, Some(node)) => Allocation::Node(node).shares(node, nodes),
    };
    let all = if shared { group.count } else { 1 };
    File {
        bytes: group.bytes as f64 * all as f64,
        shares,
        users: 0,
    }
}

/// The node with the fewest threads per core, the first of these.
fn emptiest(model: &Model, crowd: &[u32]) -> usize {
    let load = |node: usize| f64::from(crowd[node]) / model.cores(node);
    let nodes = 1..crowd.len();
    nodes.fold(
        0,
        |best, node| if load(node) < load(best) { node } else { best },
    )
}
