//! What goes through the nodes while threads are put here and there.
//!
//! Sums are whole bytes and nanoseconds, so that nothing drifts and the order of the threads
//! does not matter; rates are taken from them at the end.

use egeria_facts::{ThreadFacts, Window};
use egeria_machine::{AccessKind, Machine, Medium, NodeId};

use super::maximum;
use super::settings::{PmRule, Settings};
use super::thread::Thread;
use crate::NodeLoad;

const NS_PER_S: f64 = 1e9;

/// A thread that ran for less than this share of the window needs no core of its own.
const RUNNER_SHARE: f64 = 0.01;

/// One thread in sums of parts of threads. Whole numbers, so that taking off is exact.
const WHOLE_THREAD: u64 = 1 << 20;

/// The loads of all nodes; a node is its position in `Machine::nodes`.
pub(super) struct Loads<'a> {
    nodes: Vec<Sums<'a>>,
    duration_ns: u64,
    read_weight: f64,
}

/// The sums of one node over the window.
struct Sums<'a> {
    id: NodeId,
    /// What the medium gives at the concurrency there is, if that is the rule.
    medium: Option<Medium<'a>>,
    /// Threads at the medium, each as far as its bytes are there.
    accessing: u64,
    cores: f64,
    pm_maximum_bytes_s: Option<f64>,
    /// Bytes read. Reads stay where the data is, wherever the reader goes.
    read: u128,
    /// Bytes written. Writes go with the writer.
    written: u128,
    /// Running time, ns.
    busy: u128,
    /// The part of it that none of the window's threads had, ns.
    background: u128,
    /// Threads that need a core.
    runners: u32,
    threads: u32,
}

impl<'a> Loads<'a> {
    /// Every thread where it is. What nodes counted beyond what their threads did stays there.
    pub(super) fn new(
        machine: &'a Machine,
        window: &Window,
        settings: &Settings,
        threads: &[Thread<'_>],
    ) -> Loads<'a> {
        let sums = |index: usize| Sums::empty(machine, window, settings, index);
        let mut loads = Loads {
            nodes: (0..machine.nodes.len()).map(sums).collect(),
            duration_ns: window.duration_ns,
            read_weight: settings.read_weight,
        };
        for thread in threads {
            loads.put_on(thread);
            for (node, sums) in loads.nodes.iter_mut().enumerate() {
                sums.accessing += part_of(thread, thread.read_from(node));
            }
        }
        loads.add_background(window, threads);
        loads
    }

    /// Adds a thread where it is `at`, without its reads.
    pub(super) fn put_on(&mut self, thread: &Thread<'_>) {
        let (busy_ns, runners) = (self.busy_ns(thread.facts), self.runners(thread));
        let sums = &mut self.nodes[thread.at];
        sums.written += u128::from(thread.written);
        sums.accessing += part_of(thread, thread.written);
        sums.busy += u128::from(busy_ns);
        sums.runners += runners;
        sums.threads += 1;
    }

    /// Removes a thread from where it is `at`.
    pub(super) fn take_off(&mut self, thread: &Thread<'_>) {
        let (busy_ns, runners) = (self.busy_ns(thread.facts), self.runners(thread));
        let sums = &mut self.nodes[thread.at];
        sums.written -= u128::from(thread.written);
        sums.accessing -= part_of(thread, thread.written);
        sums.busy -= u128::from(busy_ns);
        sums.runners -= runners;
        sums.threads -= 1;
    }

    /// `BW_N` (NThread Eq. 1), bytes/s: bytes written, and bytes read times their weight. By the rule `curve` it is
    /// higher if the medium is busier than that.
    pub(super) fn pm_bytes_s(&self, node: usize) -> f64 {
        let sums = &self.nodes[node];
        self.pm_bytes_s_of(sums, sums.written, sums.accessing)
    }

    /// `BW_N` of a node if a thread from elsewhere were added, or a thread on it removed (`without`), bytes/s.
    pub(super) fn pm_bytes_s_with(&self, node: usize, thread: &Thread<'_>, without: bool) -> f64 {
        let sums = &self.nodes[node];
        let (written, part) = (u128::from(thread.written), part_of(thread, thread.written));
        if without {
            self.pm_bytes_s_of(
                sums,
                sums.written.saturating_sub(written),
                sums.accessing.saturating_sub(part),
            )
        } else {
            self.pm_bytes_s_of(sums, sums.written + written, sums.accessing + part)
        }
    }

    fn pm_bytes_s_of(&self, sums: &Sums<'_>, written: u128, accessing: u64) -> f64 {
        let (read, written) = (sums.read as f64, written as f64);
        let bytes_s = self.per_second(read * self.read_weight + written);
        let judged = sums.medium.as_ref().zip(sums.pm_maximum_bytes_s);
        let Some((medium, maximum_bytes_s)) = judged else {
            return bytes_s;
        };
        // The share of the time that these bytes take at this concurrency, as a load of the peak.
        let threads = accessing
            .div_ceil(WHOLE_THREAD)
            .clamp(1, u64::from(u32::MAX));
        let share = |bytes: f64, kind| {
            self.per_second(bytes) / medium.capacity_bytes_s(kind, false, threads as u32)
        };
        let used = share(read, AccessKind::Read) + share(written, AccessKind::Write);
        let written_share = written / (read + written).max(1.0);
        let used = used * medium.mixed(false, written_share, threads as f64);
        bytes_s.max(used * maximum_bytes_s)
    }

    /// The most that [`Loads::pm_bytes_s`] can be; `None` when unknown or without a pool.
    pub(super) fn pm_maximum_bytes_s(&self, node: usize) -> Option<f64> {
        self.nodes[node].pm_maximum_bytes_s
    }

    /// The nodes whose persistent memory can be judged.
    pub(super) fn pm_nodes(&self) -> impl Iterator<Item = usize> + '_ {
        let nodes = 0..self.nodes.len();
        nodes.filter(|&node| self.pm_maximum_bytes_s(node).is_some())
    }

    /// `BW_average` (NThread Eq. 3) over the nodes that can be judged, bytes/s.
    pub(super) fn pm_average_bytes_s(&self) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0_f64);
        for node in self.pm_nodes() {
            sum += self.pm_bytes_s(node);
            count += 1.0;
        }
        sum / count.max(1.0)
    }

    /// `CPU_N`: the sum of [`Loads::thread_share`] over the threads on the node (NThread
    /// §III-C2); 1 is all its cores.
    pub(super) fn cpu_share(&self, node: usize) -> f64 {
        self.share_ns(self.nodes[node].busy as f64, node)
    }

    /// `CPU_i` on a node (NThread Eq. 6): running time over window times cores.
    pub(super) fn thread_share(&self, thread: &Thread<'_>, node: usize) -> f64 {
        self.share_ns(self.busy_ns(thread.facts) as f64, node)
    }

    /// What one whole core is of the node's.
    pub(super) fn core_share(&self, node: usize) -> f64 {
        self.share_ns(self.duration_ns as f64, node)
    }

    /// How many cores the node has beyond those its threads and everybody else there need; below
    /// 0 when they wait for each other.
    pub(super) fn spare_cores(&self, node: usize) -> f64 {
        let sums = &self.nodes[node];
        let others = sums.background as f64 / (self.duration_ns as f64).max(1.0);
        sums.cores - f64::from(sums.runners) - others
    }

    /// 1 for a thread that needs a core, 0 for one that hardly runs.
    fn runners(&self, thread: &Thread<'_>) -> u32 {
        let busy_ns = self.busy_ns(thread.facts) as f64;
        u32::from(busy_ns >= RUNNER_SHARE * self.duration_ns as f64)
    }

    /// The nodes that have CPUs.
    pub(super) fn cpu_nodes(&self) -> impl Iterator<Item = usize> + '_ {
        let nodes = 0..self.nodes.len();
        nodes.filter(|&node| self.nodes[node].cores > 0.0)
    }

    /// Whether a node has CPUs.
    pub(super) fn has_cores(&self, node: usize) -> bool {
        self.nodes[node].cores > 0.0
    }

    /// A number of bytes in the window, per second.
    pub(super) fn per_second(&self, bytes: f64) -> f64 {
        match self.duration_ns {
            0 => 0.0,
            duration_ns => bytes * NS_PER_S / duration_ns as f64,
        }
    }

    /// How long the window lasted, s.
    pub(super) fn seconds(&self) -> f64 {
        self.duration_ns as f64 / NS_PER_S
    }

    /// The loads as a plan shows them.
    pub(super) fn report(&self) -> Vec<NodeLoad> {
        let load = |(node, sums): (usize, &Sums)| NodeLoad {
            node: sums.id,
            threads: sums.threads,
            read_bytes_s: self.per_second(sums.read as f64),
            written_bytes_s: self.per_second(sums.written as f64),
            pm_bytes_s: self.pm_bytes_s(node),
            pm_maximum_bytes_s: sums.pm_maximum_bytes_s,
            cpu_share: self.cpu_share(node),
        };
        self.nodes.iter().enumerate().map(load).collect()
    }

    /// The number of a node.
    pub(super) fn id(&self, node: usize) -> NodeId {
        self.nodes[node].id
    }

    /// A thread runs on one core at a time, whatever was accounted late.
    fn busy_ns(&self, facts: &ThreadFacts) -> u64 {
        facts.busy_ns.min(self.duration_ns)
    }

    fn share_ns(&self, busy_ns: f64, node: usize) -> f64 {
        let whole_ns = self.duration_ns as f64 * self.nodes[node].cores;
        if whole_ns > 0.0 {
            busy_ns / whole_ns
        } else {
            0.0
        }
    }

    fn add_background(&mut self, window: &Window, threads: &[Thread<'_>]) {
        let duration_ns = self.duration_ns;
        for (index, sums) in self.nodes.iter_mut().enumerate() {
            let at = |bytes: &[u64]| u128::from(bytes.get(index).copied().unwrap_or_default());
            let (mut read, mut written) = (0, 0);
            for thread in threads {
                read += at(&thread.facts.read_bytes);
                written += at(&thread.facts.written_bytes);
            }
            let counted = window.nodes.get(index);
            let beyond = |counted: Option<u64>, known| {
                u128::from(counted.unwrap_or_default()).saturating_sub(known)
            };
            let whole_ns = (duration_ns as f64 * sums.cores) as u128;
            let busy = beyond(counted.map(|facts| facts.busy_ns), sums.busy);
            sums.read = read + beyond(counted.map(|facts| facts.read_bytes), read);
            sums.written += beyond(counted.map(|facts| facts.written_bytes), written);
            sums.background = busy.min(whole_ns);
            sums.busy += sums.background;
        }
    }
}

impl<'a> Sums<'a> {
    fn empty(machine: &'a Machine, window: &Window, settings: &Settings, index: usize) -> Sums<'a> {
        let node = &machine.nodes[index];
        let maximum = maximum::pm_maximum_bytes_s(machine, index, settings);
        Sums {
            id: node.id,
            medium: machine
                .bounded_medium(index)
                .filter(|_| settings.pm_rule == PmRule::Curve),
            accessing: 0,
            cores: machine.core_count(node) as f64,
            // No thread that writes can go to a node without CPUs, so it takes no part in Eqs. 3 and 4.
            pm_maximum_bytes_s: maximum
                .filter(|_| maximum::has_pool(window, index) && machine.core_count(node) > 0),
            read: 0,
            written: 0,
            busy: 0,
            background: 0,
            runners: 0,
            threads: 0,
        }
    }
}

/// The part of a thread's bytes that these are, in units of [`WHOLE_THREAD`].
fn part_of(thread: &Thread<'_>, bytes: u64) -> u64 {
    let all = u128::from(thread.read) + u128::from(thread.written);
    let part = u128::from(bytes) * u128::from(WHOLE_THREAD);
    part.checked_div(all).map_or(0, |part| part as u64)
}
