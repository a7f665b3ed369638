//! The state of the machine and the window in a round of relocation.

use egeria_facts::FileKey;
use egeria_machine::NodeId;

use super::super::decision::{Relocate, RelocationReason, RelocationStep};
use super::candidates::Candidate;
use super::history::UnderWay;
use super::options::Choice;
use super::rates::Rates;
use super::scene::Scene;
use super::speeds::Speeds;
use super::traffic::{Reader, Traffic};

/// One window in progress. Nodes are positions.
pub(super) struct Round<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) speeds: &'a Speeds<'a>,
    pub(super) candidates: &'a [Candidate<'a>],
    pub(super) rates: Rates<'a>,
    /// How much of each node's memory is in use: by `BW_N`, or by time if that is more.
    pub(super) used_shares: Vec<f64>,
    /// Nodes contended for reads.
    contended: Vec<bool>,
    /// Share of each node's CPUs in use, with threads that would follow files.
    pub(super) cpu_shares: Vec<f64>,
    /// Room on each node, bytes; `None` if it is not known.
    room: Vec<Option<u64>>,
    /// What is on its way from each node, bytes: room that comes.
    leaving: Vec<u64>,
    pub(super) steps: Vec<RelocationStep>,
}

/// `BW_N` of each node after the moves of threads, as a share of the maximum; 0 where that is not known.
pub(super) fn pm_shares(scene: &Scene<'_>) -> Vec<f64> {
    let loads = scene.threads.expected.iter();
    let share = |load: &crate::NodeLoad| {
        let maximum = load.pm_maximum_bytes_s.filter(|maximum| *maximum > 0.0);
        maximum.map_or(0.0, |maximum| load.pm_bytes_s / maximum)
    };
    loads.map(share).collect()
}

/// The reads of all threads where they will be.
pub(super) fn traffic<'a>(
    scene: &Scene<'_>,
    speeds: &'a Speeds<'a>,
    places: &[Option<usize>],
) -> Traffic<'a> {
    let window = &scene.facts.window;
    let threads = window.threads.iter().zip(places);
    let reader = |(thread, place): (&egeria_facts::ThreadFacts, &Option<usize>)| {
        let rates = thread.read_bytes.iter().take(speeds.nodes);
        Some(Reader {
            node: (*place)?,
            rates: rates.map(|bytes| window.rate_bytes_s(*bytes)).collect(),
            written_bytes_s: window.rate_bytes_s(thread.written_total()),
            busy: thread.busy_ns as f64 / window.duration_ns.max(1) as f64,
        })
    };
    let readers: Vec<Reader> = threads.filter_map(reader).collect();
    let limit = scene.settings.nthread.pm_limit;
    Traffic::new(speeds, &readers, &pm_shares(scene), limit)
}

impl<'a> Round<'a> {
    pub(super) fn new(
        scene: &'a Scene<'a>,
        speeds: &'a Speeds<'a>,
        candidates: &'a [Candidate<'a>],
        traffic: &Traffic<'_>,
    ) -> Round<'a> {
        let (pm_shares, limit) = (pm_shares(scene), scene.settings.nthread.pm_limit);
        let used_share = |node: usize| {
            let pm_share = pm_shares.get(node).copied().unwrap_or_default();
            pm_share.max(traffic.medium_use(node))
        };
        let used_shares: Vec<f64> = (0..speeds.nodes).map(used_share).collect();
        let is_contended = |node: usize| used_shares[node] >= limit && traffic.is_mostly_read(node);
        let room = |node: &egeria_machine::Node| {
            let mut media = scene.facts.media.iter();
            media.find(|medium| medium.node == node.id)?.free_bytes
        };
        Round {
            scene,
            speeds,
            candidates,
            rates: Rates::new(speeds, scene.settings.relocation.copy_share),
            contended: (0..speeds.nodes).map(is_contended).collect(),
            used_shares,
            cpu_shares: scene
                .threads
                .expected
                .iter()
                .map(|load| load.cpu_share)
                .collect(),
            room: scene.machine.nodes.iter().map(room).collect(),
            leaving: vec![0; speeds.nodes],
            steps: Vec::new(),
        }
    }

    pub(super) fn id(&self, node: usize) -> NodeId {
        self.scene.machine.nodes[node].id
    }

    /// Whether reads contend for a node's memory.
    pub(super) fn is_contended(&self, node: usize) -> bool {
        self.contended[node]
    }

    /// Whether a file brought too little on a node before, and is not sent there again yet.
    pub(super) fn is_resting(&self, candidate: &Candidate<'_>, to: usize) -> bool {
        let (file, to) = (candidate.facts.file, self.id(to));
        self.scene.setbacks.keep_file(file, to)
    }

    /// Whether hot data may go to a node: it can be written there, and CPUs that can read it are near.
    pub(super) fn is_hot_place(&self, node: usize) -> bool {
        self.has_pool(node) && self.cores(node) > 0.0
    }

    /// The nearest node of the capacity tier: one without CPUs that data can be written to.
    pub(super) fn capacity_node(&self, from: usize) -> Option<usize> {
        let is_capacity = |node: &usize| self.has_pool(*node) && self.cores(*node) <= 0.0;
        let distances = self.scene.machine.distances.get(from);
        let distance = |node: &usize| distances.and_then(|row| row.get(*node)).copied();
        let capacity = (0..self.speeds.nodes).filter(is_capacity);
        capacity.min_by_key(|node| distance(node).unwrap_or(u32::MAX))
    }

    fn has_pool(&self, node: usize) -> bool {
        let facts = self.scene.facts.window.nodes.get(node);
        facts.is_none_or(|facts| facts.has_pool) && self.speeds.media[node].is_some()
    }

    fn cores(&self, node: usize) -> f64 {
        let machine = self.scene.machine;
        machine.core_count(&machine.nodes[node]) as f64
    }

    /// Whether this number of bytes fits on a node.
    pub(super) fn fits(&self, node: usize, bytes: u64) -> bool {
        self.room[node].is_none_or(|room| bytes <= room)
    }

    /// How many of these bytes have no room on a node, also when what is on its way from there has gone.
    pub(super) fn missing(&self, node: usize, bytes: u64) -> u64 {
        let missing = self.room[node].map_or(0, |room| bytes.saturating_sub(room));
        missing.saturating_sub(self.leaving[node])
    }

    /// Counts a copy that began before.
    pub(super) fn add_under_way(&mut self, copy: &UnderWay) {
        self.rates.take(copy.from, copy.to, copy.bytes_s);
        if !copy.is_replica {
            self.leaving[copy.from] = self.leaving[copy.from].saturating_add(copy.bytes);
        }
    }

    /// Whether the data of a step fits on its target.
    pub(super) fn has_room(&self, choice: &Choice) -> bool {
        self.fits(choice.to, choice.bytes)
    }

    /// Takes this number of bytes of room on a node.
    pub(super) fn fill(&mut self, node: usize, bytes: u64) {
        if let Some(room) = &mut self.room[node] {
            *room = room.saturating_sub(bytes);
        }
    }

    /// Whether the threads that would follow a file may run on a node and have room on its CPUs.
    pub(super) fn may_follow(&self, candidate: &Candidate<'_>, node: usize) -> bool {
        let follows = candidate.following.iter().any(|bytes_s| *bytes_s > 0.0);
        let share = self.cpu_of(candidate, node);
        let busy = self.cpu_shares.get(node).copied().unwrap_or_default();
        let limit = self.scene.settings.nthread.cpu_limit;
        follows && candidate.open_to_following[node] && busy + share <= limit
    }

    /// What the threads that would follow a file to a node need of its CPUs, without those that are already there.
    pub(super) fn cpu_of(&self, candidate: &Candidate<'_>, node: usize) -> f64 {
        let busy = candidate.following_busy.iter().enumerate();
        let coming = busy.filter(|(from, _)| *from != node);
        coming.map(|(_, busy)| busy).sum::<f64>() / self.cores(node)
    }
}

/// A node drops its copy of a file.
pub(super) fn drop_step(
    file: FileKey,
    on: NodeId,
    why: RelocationReason,
    horizon_ms: u64,
) -> RelocationStep {
    RelocationStep {
        file,
        action: Relocate::Drop { on },
        bytes: 0,
        bytes_s: 0.0,
        cost_ns: 0,
        loss_thread_s: 0.0,
        gain_threads: 0.0,
        horizon_ns: horizon_ms.saturating_mul(1_000_000),
        why,
    }
}
