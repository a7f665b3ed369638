//! Files that may be moved: which nodes read them, once threads have moved.

use std::collections::{BTreeMap, HashMap};

use egeria_facts::{FileFacts, FileKey, ThreadFacts};
use egeria_machine::Machine;

use super::scene::Scene;

/// A thread follows a file that is at least this part of its reads.
pub(super) const MAIN_PART: f64 = 0.5;
/// Threads follow a file if at least this part of its reads is then at one node.
pub(super) const GATHERED: f64 = 0.9;
/// Most files looked at in one window.
pub(super) const MAX_FILES: usize = 64;

/// One file. Nodes are positions.
pub(super) struct Candidate<'a> {
    pub(super) facts: &'a FileFacts,
    /// What threads on one node read of it from another, bytes/s, `[reader][data]`.
    pub(super) reads: Vec<Vec<f64>>,
    /// The sum of these reads, bytes/s.
    pub(super) read_bytes_s: f64,
    /// The part of that, by reader's node, of threads that would follow the file.
    pub(super) following: Vec<f64>,
    /// Running time of these threads, s/s, by their node.
    pub(super) following_busy: Vec<f64>,
    /// Nodes that all of these threads may run on.
    pub(super) open_to_following: Vec<bool>,
    /// The processes that use it. If none is known, all processes that use files.
    pub(super) payers: Vec<u32>,
}

impl Candidate<'_> {
    /// The node that most reads should leave. All reads count from a contended node, else only remote reads. `None`
    /// for a file without data on a node.
    pub(super) fn source(&self, is_contended: impl Fn(usize) -> bool) -> Option<usize> {
        let unwelcome = |node: usize| {
            if is_contended(node) {
                self.read_from(node)
            } else {
                self.read_from(node) - self.reads[node][node]
            }
        };
        let nodes = 0..self.reads.len();
        let on = nodes.filter(|node| self.facts.on(*node) > 0);
        on.rev().max_by(|one, other| {
            let (one, other) = (*one, *other);
            let by_reads = unwelcome(one).total_cmp(&unwelcome(other));
            by_reads.then(self.facts.on(one).cmp(&self.facts.on(other)))
        })
    }

    /// Reads of it from a node's memory, bytes/s.
    pub(super) fn read_from(&self, data: usize) -> f64 {
        self.reads.iter().map(|row| row[data]).sum()
    }

    /// Share of its reads that are remote, 0 to 1.
    pub(super) fn remote_share(&self) -> f64 {
        let local: f64 = (0..self.reads.len())
            .map(|node| self.reads[node][node])
            .sum();
        if self.read_bytes_s > 0.0 {
            (1.0 - local / self.read_bytes_s).max(0.0)
        } else {
            0.0
        }
    }

    /// Share of its traffic that is writes, 0 to 1.
    pub(super) fn written_share(&self, seconds: f64) -> f64 {
        let written_bytes_s = self.facts.written_bytes as f64 / seconds;
        match self.read_bytes_s + written_bytes_s {
            all if all > 0.0 => written_bytes_s / all,
            _ => 0.0,
        }
    }
}

/// The node of each thread after the plan, by position; `None` if it is on no node.
pub(super) fn places(scene: &Scene<'_>) -> Vec<Option<usize>> {
    let place = |thread: &ThreadFacts| {
        let step = scene.threads.move_of(thread.key).map(|step| step.to);
        let held = scene.held.get(&thread.key).copied();
        scene.machine.index_of(step.or(held).unwrap_or(thread.node))
    };
    scene.facts.window.threads.iter().map(place).collect()
}

/// The files of the window, most read first. If a file has two entries, the first counts.
pub(super) fn candidates<'a>(scene: &Scene<'a>, places: &[Option<usize>]) -> Vec<Candidate<'a>> {
    let seconds = scene.facts.window.seconds();
    let users = users(scene);
    let everybody = processes(
        scene
            .facts
            .window
            .threads
            .iter()
            .filter(|thread| thread.moved_total() > 0),
    );
    let mut files: BTreeMap<FileKey, &'a FileFacts> = BTreeMap::new();
    for facts in &scene.facts.files {
        files.entry(facts.file).or_insert(facts);
    }
    let empty = Vec::new();
    let candidate = |facts: &&'a FileFacts| {
        let facts = *facts;
        let users = users.get(&facts.file).unwrap_or(&empty);
        let mut candidate = Candidate::new(facts, scene.machine.nodes.len(), seconds);
        for (index, read_bytes) in users {
            let thread = &scene.facts.window.threads[*index];
            if let (Some(from), Some(to)) = (scene.machine.index_of(thread.node), places[*index]) {
                candidate.carry(from, to, *read_bytes as f64 / seconds);
                candidate.follow(scene, thread, to, *read_bytes as f64 / seconds);
            }
        }
        let threads = users
            .iter()
            .map(|(index, _)| &scene.facts.window.threads[*index]);
        candidate.payers = processes(threads);
        if candidate.payers.is_empty() {
            candidate.payers.clone_from(&everybody);
        }
        candidate
    };
    let mut all: Vec<Candidate<'a>> = files.values().map(candidate).collect();
    all.sort_by(|one, other| other.read_bytes_s.total_cmp(&one.read_bytes_s));
    all
}

/// The threads that use each file, by position, and what they read of it.
fn users(scene: &Scene<'_>) -> HashMap<FileKey, Vec<(usize, u64)>> {
    let mut users: HashMap<FileKey, Vec<(usize, u64)>> = HashMap::new();
    for (index, thread) in scene.facts.window.threads.iter().enumerate() {
        for file in &thread.files {
            users
                .entry(file.file)
                .or_default()
                .push((index, file.read_bytes));
        }
    }
    users
}

fn processes<'a>(threads: impl Iterator<Item = &'a ThreadFacts>) -> Vec<u32> {
    let mut all: Vec<u32> = threads
        .map(|thread: &ThreadFacts| thread.key.process_id)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

impl<'a> Candidate<'a> {
    fn new(facts: &'a FileFacts, nodes: usize, seconds: f64) -> Candidate<'a> {
        let read = |reader: usize, data: usize| {
            if seconds > 0.0 {
                facts.read(reader, data) as f64 / seconds
            } else {
                0.0
            }
        };
        let row = |reader: usize| (0..nodes).map(|data| read(reader, data)).collect();
        let reads: Vec<Vec<f64>> = (0..nodes).map(row).collect();
        Candidate {
            facts,
            read_bytes_s: reads.iter().flatten().sum(),
            reads,
            following: vec![0.0; nodes],
            following_busy: vec![0.0; nodes],
            open_to_following: vec![true; nodes],
            payers: Vec::new(),
        }
    }

    /// Moves the reads of a thread to its new node.
    fn carry(&mut self, from: usize, to: usize, bytes_s: f64) {
        let all: f64 = self.reads[from].iter().sum();
        if from == to || all <= 0.0 {
            return;
        }
        let part = (bytes_s / all).min(1.0);
        for data in 0..self.reads.len() {
            let carried = self.reads[from][data] * part;
            self.reads[from][data] -= carried;
            self.reads[to][data] += carried;
        }
    }

    /// Records a thread that would follow the file, because NThread would make that node its target.
    fn follow(&mut self, scene: &Scene<'_>, thread: &ThreadFacts, node: usize, bytes_s: f64) {
        let settings = &scene.settings.nthread;
        let read_bytes_s = scene.facts.window.rate_bytes_s(thread.read_total());
        let follows = settings.stages.remote
            && !scene.held.contains_key(&thread.key)
            && bytes_s >= MAIN_PART * read_bytes_s
            && GATHERED * bytes_s - (read_bytes_s - GATHERED * bytes_s)
                >= settings.read_margin_bytes_s;
        if !follows {
            return;
        }
        self.following[node] += bytes_s;
        let busy_ns = thread.busy_ns.min(scene.facts.window.duration_ns);
        self.following_busy[node] += busy_ns as f64 / scene.facts.window.duration_ns.max(1) as f64;
        for (index, is_open) in self.open_to_following.iter_mut().enumerate() {
            *is_open &= may_run(scene.machine, thread, index);
        }
    }
}

/// Whether a thread may run on the node at this position.
fn may_run(machine: &Machine, thread: &ThreadFacts, index: usize) -> bool {
    let node = &machine.nodes[index];
    let takes_any = machine.is_emulated() && node.cpus.is_empty();
    let cpus = node.cpus.iter();
    let allows = takes_any || cpus.copied().any(|cpu| thread.allowed_cpus.contains(cpu));
    !thread.pinned && allows
}
