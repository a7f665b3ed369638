//! Sums over a log.

use std::collections::{BTreeMap, HashMap, HashSet};

use egeria_facts::ProcessKey;
use egeria_facts::ThreadKey;
use egeria_machine::NodeId;
use egeria_policy::mba::UnboundBecause;
use egeria_policy::planner::Resting;
use egeria_policy::{Contention, KeptBecause, Reason};
use egeria_steward::{ActionLine, ArrivingLine, KeptLine, KindLine, ThreadRecord, WindowRecord};
use serde::Serialize;

/// The whole log in numbers.
#[derive(Serialize)]
pub(crate) struct Summary {
    /// Windows the log tells of: those in which something happened.
    pub(crate) windows: u64,
    /// When the first began and the last ended, ns of machine time since the steward began.
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    /// Threads that read or wrote, as far as the log names them.
    pub(crate) threads: usize,
    /// Most threads of one window that the log does not name.
    pub(crate) threads_omitted: u64,
    /// Share of all bytes that were local.
    pub(crate) local_share: Option<f64>,
    /// Share of all bytes that were local in the last window.
    pub(crate) last_local_share: Option<f64>,
    pub(crate) moves: u64,
    pub(crate) moves_by_reason: BTreeMap<&'static str, u64>,
    pub(crate) moves_failed: u64,
    pub(crate) moved_threads: usize,
    pub(crate) max_moves_per_thread: u64,
    /// Actions that are no moves of single threads.
    pub(crate) other_actions: u64,
    /// Actions that brought less than half of what was expected.
    pub(crate) missed: u64,
    /// Windows in which a node was contended, or would have been with all threads at their data.
    pub(crate) contended: Vec<Contended>,
    /// Threads of the last window that contention keeps away from their data.
    pub(crate) displaced: Vec<Displaced>,
    /// What is not done now, because it brought less than half of what was expected.
    pub(crate) resting: Vec<Resting>,
    /// Processes that use memory heavily and are left as they are.
    pub(crate) kept_processes: Vec<KeptLine>,
    /// Short-lived processes by parent, of the last window that had some.
    pub(crate) kinds: Vec<KindLine>,
    /// Why programs that use a memory with too many threads are not bounded.
    pub(crate) unbound: Option<UnboundBecause>,
    /// Memory that goes or went to its threads, by process.
    pub(crate) arriving: Vec<ArrivingLine>,
}

#[derive(Serialize, Debug)]
pub(crate) struct Contended {
    pub(crate) node: NodeId,
    pub(crate) contention: Contention,
    pub(crate) windows: u64,
}

#[derive(Serialize, Clone, Debug)]
pub(crate) struct Displaced {
    pub(crate) thread: ThreadKey,
    pub(crate) name: String,
    pub(crate) node: NodeId,
    /// The node it left, or that its data is on.
    pub(crate) home: NodeId,
    pub(crate) contention: Contention,
}

/// One thread over the log.
#[derive(Serialize)]
pub(crate) struct SeenThread {
    pub(crate) thread: ThreadKey,
    pub(crate) name: String,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    /// Windows in which it read or wrote.
    pub(crate) windows: u64,
    /// Share of its bytes that were local, all windows together.
    pub(crate) local_share: Option<f64>,
    /// What it did in the last of them.
    pub(crate) last: ThreadRecord,
    pub(crate) last_local_share: Option<f64>,
    pub(crate) sentence: String,
    #[serde(skip)]
    bytes: Bytes,
}

/// Bytes, and how many of them were local. Rates times time: estimates are enough for shares.
#[derive(Default, Clone, Copy)]
struct Bytes {
    local: f64,
    all: f64,
}

impl Bytes {
    fn share(&self) -> Option<f64> {
        (self.all > 0.0).then(|| self.local / self.all)
    }
}

/// What a thread moved in a second, and how much of it on its own node.
fn rates(nodes: &[NodeId], record: &ThreadRecord) -> Bytes {
    let index = nodes.iter().position(|node| *node == record.node);
    let at = |rates: &[f64]| index.and_then(|index| rates.get(index)).copied();
    let local = [&record.read_bytes_s, &record.written_bytes_s];
    Bytes {
        local: local.into_iter().filter_map(|rates| at(rates)).sum(),
        all: record.bytes_s(),
    }
}

/// Share of a thread's bytes that were on its own node.
pub(crate) fn local_share(nodes: &[NodeId], record: &ThreadRecord) -> Option<f64> {
    rates(nodes, record).share()
}

impl SeenThread {
    pub(crate) fn new(start_ns: u64, record: &ThreadRecord) -> SeenThread {
        SeenThread {
            thread: record.thread,
            name: String::new(),
            first_ns: start_ns,
            last_ns: start_ns,
            windows: 0,
            local_share: None,
            last: record.clone(),
            last_local_share: None,
            sentence: String::new(),
            bytes: Bytes::default(),
        }
    }

    pub(crate) fn add(&mut self, decision: &WindowRecord, nodes: &[NodeId], record: &ThreadRecord) {
        let rates = rates(nodes, record);
        let seconds = decision.duration_ns as f64 / 1e9;
        self.bytes.local += rates.local * seconds;
        self.bytes.all += rates.all * seconds;
        self.windows += 1;
        self.last_ns = decision.start_ns.saturating_add(decision.duration_ns);
        self.name.clone_from(&record.name);
        self.local_share = self.bytes.share();
        self.last_local_share = rates.share();
        self.last = record.clone();
    }
}

/// Sums as the log is read.
#[derive(Default)]
pub(crate) struct Totals {
    windows: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    threads: HashSet<ThreadKey>,
    active: HashSet<ThreadKey>,
    omitted: u64,
    max_omitted: u64,
    bytes: Bytes,
    last_local_share: Option<f64>,
    reasons: BTreeMap<&'static str, u64>,
    failed: u64,
    other_actions: u64,
    missed: u64,
    moved: BTreeMap<ThreadKey, u64>,
    contended: BTreeMap<(NodeId, Contention), u64>,
    displaced: BTreeMap<ThreadKey, Displaced>,
    resting: Vec<Resting>,
    kept_processes: Vec<KeptLine>,
    kinds: Vec<KindLine>,
    unbound: Option<UnboundBecause>,
    arriving: BTreeMap<ProcessKey, ArrivingLine>,
}

impl Totals {
    pub(crate) fn add(&mut self, decision: &WindowRecord) {
        self.windows += 1;
        self.first_ns.get_or_insert(decision.start_ns);
        self.last_ns = decision.start_ns.saturating_add(decision.duration_ns);
        let seconds = decision.duration_ns as f64 / 1e9;
        self.active.clear();
        let all = (decision.nodes.iter()).map(|node| node.read_bytes_s + node.written_bytes_s);
        if let Some(share) = decision.local_share {
            let all = all.sum::<f64>() * seconds;
            self.bytes.local += all * share;
            self.bytes.all += all;
        }
        self.omitted = decision.threads_omitted;
        self.max_omitted = self.max_omitted.max(self.omitted);
        for record in &decision.threads {
            self.threads.insert(record.thread);
            self.active.insert(record.thread);
        }
        if decision.local_share.is_some() {
            self.last_local_share = decision.local_share;
        }
        let pm = decision.pm_contended.map(|node| (node, Contention::Pm));
        let cpu = decision.cpu_contended.map(|node| (node, Contention::Cpu));
        for contended in pm.into_iter().chain(cpu) {
            *self.contended.entry(contended).or_default() += 1;
        }
        self.displace(decision);
        for line in &decision.actions {
            self.count(line);
        }
        self.resting.clone_from(&decision.resting);
        self.kept_processes.clone_from(&decision.kept_processes);
        if !decision.kinds.is_empty() {
            self.kinds.clone_from(&decision.kinds);
        }
        self.unbound = decision.unbound;
        for line in &decision.arriving {
            self.arriving.insert(line.progress.process, line.clone());
        }
        let results = decision.results.iter();
        self.missed += results.filter(|line| line.result.missed).count() as u64;
    }

    fn count(&mut self, line: &ActionLine) {
        let Some(step) = line.as_thread_move() else {
            self.other_actions += u64::from(line.is_done());
            return;
        };
        if !line.is_done() {
            self.failed += 1;
            return;
        }
        *self.reasons.entry(step.reason.name()).or_default() += 1;
        *self.moved.entry(step.thread).or_default() += 1;
    }

    /// Records which threads are away from their data for contention after this window. A thread that paused stays as
    /// it was.
    fn displace(&mut self, decision: &WindowRecord) {
        for record in &decision.threads {
            let home = self.displaced.get(&record.thread).map(|each| each.home);
            if home == Some(record.node) {
                self.displaced.remove(&record.thread);
            }
        }
        let names = decision
            .threads
            .iter()
            .map(|each| (each.thread, &each.name));
        let names: HashMap<ThreadKey, &String> = if decision.kept.is_empty() {
            HashMap::new()
        } else {
            names.collect()
        };
        for kept in &decision.kept {
            if let (KeptBecause::HomeContended { contention }, Some(home)) =
                (&kept.because, kept.wanted)
            {
                let displaced = Displaced {
                    thread: kept.thread,
                    name: names.get(&kept.thread).map_or("", |name| name).to_owned(),
                    node: kept.node,
                    home,
                    contention: *contention,
                };
                self.displaced.insert(kept.thread, displaced);
            }
        }
        let done = decision.actions.iter().filter(|line| line.is_done());
        let steps = done.filter_map(|line| Some((line, line.as_thread_move()?)));
        for (line, moved) in steps {
            match contention_left(&moved.reason) {
                Some((home, contention)) => {
                    let displaced = Displaced {
                        thread: moved.thread,
                        name: line.name.clone(),
                        node: moved.to,
                        home,
                        contention,
                    };
                    self.displaced.insert(moved.thread, displaced);
                }
                None => _ = self.displaced.remove(&moved.thread),
            }
        }
    }

    pub(crate) fn moves(&self) -> u64 {
        self.reasons.values().sum()
    }

    /// Moves of a thread so far.
    pub(crate) fn moves_of(&self, thread: ThreadKey) -> u64 {
        self.moved.get(&thread).copied().unwrap_or(0)
    }

    pub(crate) fn summary(&self) -> Summary {
        let displaced = self.displaced.values();
        Summary {
            windows: self.windows,
            first_ns: self.first_ns.unwrap_or(0),
            last_ns: self.last_ns,
            threads: self.threads.len(),
            threads_omitted: self.max_omitted,
            local_share: self.bytes.share(),
            last_local_share: self.last_local_share,
            moves: self.moves(),
            moves_by_reason: self.reasons.clone(),
            moves_failed: self.failed,
            moved_threads: self.moved.len(),
            other_actions: self.other_actions,
            missed: self.missed,
            max_moves_per_thread: self.moved.values().copied().max().unwrap_or(0),
            contended: (self.contended.iter())
                .map(|(&(node, contention), &windows)| Contended {
                    node,
                    contention,
                    windows,
                })
                .collect(),
            resting: self.resting.clone(),
            kept_processes: self.kept_processes.clone(),
            kinds: self.kinds.clone(),
            unbound: self.unbound,
            arriving: self.arriving.values().cloned().collect(),
            displaced: displaced
                // One that the log does not name may well be at work.
                .filter(|each| self.omitted > 0 || self.active.contains(&each.thread))
                .cloned()
                .collect(),
        }
    }
}

/// The node a thread made room on, and for what.
fn contention_left(reason: &Reason) -> Option<(NodeId, Contention)> {
    match reason {
        Reason::PmContention { contended, .. } => Some((*contended, Contention::Pm)),
        Reason::CpuContention { contended, .. } => Some((*contended, Contention::Cpu)),
        Reason::RemoteReads { .. }
        | Reason::ContentionOver { .. }
        | Reason::BroughtLess { .. }
        | Reason::Compared { .. }
        | Reason::Own { .. }
        | Reason::Together { .. } => None,
    }
}
