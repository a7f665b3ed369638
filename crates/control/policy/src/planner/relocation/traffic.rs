//! How long readers wait for data that lies here or there.
//!
//! ```text
//!   t(n, d)     = undisturbed(n, d) * max(stretch of d's memory, stretch of the lanes from d to n)      s/byte
//!   stretch(x)  = max(1, sum over readers that wait for x of waiting / undisturbed / what x gives)
//!   waiting(n, d): threads on node n that read from d at one time
//!               = what they read from d x undisturbed, where nothing on the way is contended
//!               = their running time for reads, shared by node as that product is, where something on the way is full:
//!                 at most, for computing between two reads is not known
//!               = between the two by the square of how far it is from where contention begins to full
//!   W           = sum of bytes/s(n, d) x t(n, d)                        threads that read or wait to read
//! ```
//!
//! The speed of a medium is its read bandwidth with that number of threads, without the part of the time that writes
//! take. Bytes read from another node count for more, by two factors: the medium's own, and what it makes the memory
//! write for its coherence directory, as long as threads of several nodes read it. A medium is contended by NThread's
//! measure (§III-C1: `BW_N` above `pm_limit` of the maximum), or when that part of its bandwidth with that number of
//! threads is in use. The same holds for a lane.

use egeria_machine::{AccessKind, weights};

use super::speeds::Speeds;

/// The least share that writes leave of a medium.
const MIN_LEFT: f64 = 0.05;

/// Reads between nodes after a step. Nodes are positions; pairs are `[reader * nodes + data]`.
pub(super) struct Traffic<'a> {
    speeds: &'a Speeds<'a>,
    /// Bytes/s of each pair.
    rates: Vec<f64>,
    /// Most threads of each pair that read at one time.
    waiting: Vec<f64>,
    /// Written to each node, bytes/s.
    written: Vec<f64>,
    /// Threads that read mostly there; the point on the medium's curve.
    readers: Vec<f64>,
    /// The factor by which a read from each node's memory takes longer than undisturbed; `None` if reads have changed
    /// since [`settle`](Traffic::settle).
    stretches: Vec<Option<f64>>,
}

impl Clone for Traffic<'_> {
    fn clone(&self) -> Self {
        Traffic {
            speeds: self.speeds,
            rates: self.rates.clone(),
            waiting: self.waiting.clone(),
            written: self.written.clone(),
            readers: self.readers.clone(),
            stretches: self.stretches.clone(),
        }
    }

    /// Reuses the memory that is allocated: in each round, thousands of steps for files are evaluated.
    fn clone_from(&mut self, other: &Self) {
        self.speeds = other.speeds;
        self.rates.clone_from(&other.rates);
        self.waiting.clone_from(&other.waiting);
        self.written.clone_from(&other.written);
        self.readers.clone_from(&other.readers);
        self.stretches.clone_from(&other.stretches);
    }
}

/// How far memories and lanes are in use, and how many threads wait for each.
pub(super) struct Usage<'a> {
    speeds: &'a Speeds<'a>,
    media: Vec<Used>,
    lanes: Vec<Used>,
}

#[derive(Clone, Copy, Debug)]
struct Used {
    /// 0 to 1.
    share: f64,
    threads: f64,
}

/// The cost of copying.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copying {
    /// Time taken from memories and lanes, as far as they are in use, s.
    pub(super) taken_s: f64,
    /// The time that threads wait because of it, s.
    pub(super) loss_thread_s: f64,
}

/// What one thread reads and writes, and how long it runs for that.
pub(super) struct Reader {
    pub(super) node: usize,
    /// From each node, bytes/s.
    pub(super) rates: Vec<f64>,
    pub(super) written_bytes_s: f64,
    /// Share of the time that it runs.
    pub(super) busy: f64,
}

impl<'a> Traffic<'a> {
    /// The part of a file that goes to another node to spread its reads over both: by the weights of what their memories
    /// give, as for all that is spread; half of it where that is not known.
    pub(super) fn spread_part(&self, from: usize, to: usize) -> f64 {
        let gives = [from, to]
            .map(|node| self.speeds.media[node].map_or(0.0, |medium| medium.read.bytes_s));
        match weights(&gives)[..] {
            [stays, goes] => f64::from(goes) / (f64::from(stays) + f64::from(goes)),
            _ => 0.5,
        }
    }

    /// The traffic of these readers. `pm_shares` is `BW_N` as a share of the maximum; from `limit` on it is
    /// contention.
    pub(super) fn new(
        speeds: &'a Speeds<'a>,
        readers: &[Reader],
        pm_shares: &[f64],
        limit: f64,
    ) -> Traffic<'a> {
        let nodes = speeds.nodes;
        let mut traffic = Traffic {
            speeds,
            rates: vec![0.0; nodes * nodes],
            waiting: vec![0.0; nodes * nodes],
            written: vec![0.0; nodes],
            readers: vec![0.0; nodes],
            stretches: vec![None; nodes],
        };
        for reader in readers {
            let all: f64 = reader.rates.iter().sum();
            traffic.written[reader.node] += reader.written_bytes_s;
            for (data, rate) in reader.rates.iter().enumerate() {
                if speeds.undisturbed(reader.node, data) > 0.0 {
                    traffic.rates[reader.node * nodes + data] += rate;
                    let part = if all > 0.0 { rate / all } else { 0.0 };
                    traffic.readers[data] += reader.busy.clamp(0.0, 1.0) * part;
                }
            }
        }
        let contended = traffic.contended(pm_shares, limit);
        for reader in readers {
            traffic.wait(reader, &contended);
        }
        traffic.settle();
        traffic
    }

    /// Contention of the most contended resource on the way of each pair: 0 where contention begins, 1 when full.
    fn contended(&self, pm_shares: &[f64], limit: f64) -> Vec<f64> {
        let nodes = self.speeds.nodes;
        let above = |share: f64| {
            if limit < 1.0 {
                ((share - limit) / (1.0 - limit)).clamp(0.0, 1.0).powi(2)
            } else {
                f64::from(u8::from(share >= limit))
            }
        };
        let lanes = self.lane_use();
        let medium = |data: usize| {
            let pm_share = pm_shares.get(data).copied().unwrap_or_default();
            pm_share.max(self.medium_use(data))
        };
        let media: Vec<f64> = (0..nodes).map(medium).collect();
        let pair = |pair: usize| {
            let (reader, data) = (pair / nodes, pair % nodes);
            let way = self.speeds.way(data, reader).iter();
            above(way.fold(media[data], |most, lane| most.max(lanes[*lane])))
        };
        (0..nodes * nodes).map(pair).collect()
    }

    fn wait(&mut self, reader: &Reader, contended: &[f64]) {
        let (speeds, nodes) = (self.speeds, self.speeds.nodes);
        let own = |data: usize| {
            let rate = reader.rates.get(data).copied().unwrap_or_default();
            rate * speeds.undisturbed(reader.node, data)
        };
        let reading: f64 = (0..nodes).map(own).sum();
        if reading <= 0.0 {
            return;
        }
        let medium = &speeds.media[reader.node];
        let writing = medium.as_ref().map_or(0.0, |medium| {
            reader.written_bytes_s / medium.write.stream_bytes_s
        });
        let running = (reader.busy.clamp(0.0, 1.0) - writing).max(reading.min(1.0));
        for data in 0..nodes {
            let pair = reader.node * nodes + data;
            let more = (running / reading - 1.0).max(0.0);
            self.waiting[pair] += own(data) * (1.0 + contended[pair] * more);
        }
    }

    /// Share in use, 0 to 1, of the bandwidth of a node's medium with this number of threads.
    pub(super) fn medium_use(&self, data: usize) -> f64 {
        let Some(medium) = &self.speeds.media[data] else {
            return 0.0;
        };
        let nodes = self.speeds.nodes;
        let threads = self.readers[data].ceil() as u32;
        let weighs = self.far_weight(data, threads);
        let weighed = |reader: usize| {
            let weight = if reader == data { 1.0 } else { weighs };
            self.rates[reader * nodes + data] * weight
        };
        let read: f64 = (0..nodes).map(weighed).sum();
        let gives = |kind| medium.capacity_bytes_s(kind, false, threads);
        let used = read / gives(AccessKind::Read) + self.written[data] / gives(AccessKind::Write);
        // A curve may fall to 0.
        if used.is_finite() { used.min(1.0) } else { 1.0 }
    }

    /// Whether a node's medium is in use for reads more than for writes.
    pub(super) fn is_mostly_read(&self, data: usize) -> bool {
        let written = self.speeds.media[data]
            .as_ref()
            .map_or(0.0, |medium| self.written[data] / medium.write.bytes_s);
        2.0 * written <= self.medium_use(data)
    }

    /// Whether a node reads faster from one node's memory than from another's.
    pub(super) fn is_nearer(&self, reader: usize, one: usize, other: usize) -> bool {
        let (one, other) = (
            self.speeds.undisturbed(reader, one),
            self.speeds.undisturbed(reader, other),
        );
        one > 0.0 && one < other
    }

    /// How much longer a byte takes that another node reads, with this number of threads.
    fn far_weight(&self, data: usize, threads: u32) -> f64 {
        let Some(medium) = &self.speeds.media[data] else {
            return 1.0;
        };
        let far = 1.0 / medium.read.remote_bandwidth_factor;
        if medium.directory_write_share <= 0.0 || !self.is_shared(data) {
            return far;
        }
        let gives = |kind| medium.capacity_bytes_s(kind, false, threads);
        let written = gives(AccessKind::Read) / gives(AccessKind::Write);
        // A curve may fall to 0.
        far + medium.directory_write_share * if written.is_finite() { written } else { 1.0 }
    }

    /// Whether threads of several nodes read from a node's memory.
    fn is_shared(&self, data: usize) -> bool {
        let nodes = self.speeds.nodes;
        let reads = |reader: &usize| self.rates[reader * nodes + data] > 0.0;
        (0..nodes).filter(reads).count() > 1
    }

    /// Share of each lane that reads use.
    fn lane_use(&self) -> Vec<f64> {
        let used = self.over_lanes(|pair| self.rates[pair]);
        self.per_width(used)
    }

    fn per_width(&self, mut sums: Vec<f64>) -> Vec<f64> {
        let lanes = sums.iter_mut().zip(&self.speeds.lane_bytes_s);
        lanes.for_each(|(sum, width)| *sum /= width);
        sums
    }

    /// The sum of something over the pairs that use each lane.
    fn over_lanes(&self, amount: impl Fn(usize) -> f64) -> Vec<f64> {
        let nodes = self.speeds.nodes;
        let mut sums = vec![0.0; self.speeds.lane_bytes_s.len()];
        for pair in 0..nodes * nodes {
            let amount = amount(pair);
            if amount > 0.0 {
                for lane in self.speeds.way(pair % nodes, pair / nodes) {
                    sums[*lane] += amount;
                }
            }
        }
        sums
    }

    /// What the threads of a pair would read without contention, bytes/s.
    fn asked_bytes_s(&self, pair: usize) -> f64 {
        let nodes = self.speeds.nodes;
        match self.speeds.undisturbed(pair / nodes, pair % nodes) {
            0.0 => 0.0,
            seconds => self.waiting[pair] / seconds,
        }
    }

    /// The largest factor by which a read from a node's memory takes longer than undisturbed.
    pub(super) fn stretch(&self, data: usize) -> f64 {
        self.stretches[data].unwrap_or_else(|| self.find_stretch(data))
    }

    /// Computes the stretches of memories with changed reads, so that each is computed once.
    pub(super) fn settle(&mut self) {
        for data in 0..self.speeds.nodes {
            self.stretches[data] = Some(self.stretch(data));
        }
    }

    fn find_stretch(&self, data: usize) -> f64 {
        let Some(medium) = &self.speeds.media[data] else {
            return 1.0;
        };
        let nodes = self.speeds.nodes;
        let pair = |reader: usize| reader * nodes + data;
        let threads: f64 = (0..nodes).map(|reader| self.waiting[pair(reader)]).sum();
        let threads = threads.ceil() as u32;
        let weighs = self.far_weight(data, threads);
        let weighed = |reader: usize| {
            let weight = if reader == data { 1.0 } else { weighs };
            self.asked_bytes_s(pair(reader)) * weight
        };
        let asked: f64 = (0..nodes).map(weighed).sum();
        let gives_bytes_s = medium.capacity_bytes_s(AccessKind::Read, false, threads);
        let left = (1.0 - self.written[data] / medium.write.bytes_s).max(MIN_LEFT);
        (asked / (gives_bytes_s * left)).max(1.0)
    }

    /// `W`: threads that read or wait to read, at the present rates.
    pub(super) fn reading_threads(&self) -> f64 {
        self.reading_threads_of(&self.rates)
    }

    /// The part of `W` for reads at these rates, bytes/s of each pair.
    pub(super) fn reading_threads_of(&self, rates: &[f64]) -> f64 {
        let nodes = self.speeds.nodes;
        let media: Vec<f64> = (0..nodes).map(|data| self.stretch(data)).collect();
        let lanes = self.per_width(self.over_lanes(|pair| self.asked_bytes_s(pair)));
        let mut sum = 0.0;
        let used = rates.iter().enumerate();
        for (pair, rate) in used.filter(|(_, rate)| **rate > 0.0) {
            let (reader, data) = (pair / nodes, pair % nodes);
            let way = self.speeds.way(data, reader).iter();
            let stretch = way.fold(media[data], |most, lane| most.max(lanes[*lane]));
            sum += rate * self.speeds.undisturbed(reader, data) * stretch;
        }
        sum
    }

    /// Moves this rate of reads from one pair to another.
    pub(super) fn shift(&mut self, from: (usize, usize), to: (usize, usize), bytes_s: f64) {
        let nodes = self.speeds.nodes;
        let data = [from.1, to.1];
        let (from, to) = (from.0 * nodes + from.1, to.0 * nodes + to.1);
        let bytes_s = bytes_s.min(self.rates[from]);
        if bytes_s <= 0.0 || from == to {
            return;
        }
        data.iter().for_each(|data| self.stretches[*data] = None);
        let waiting = self.waiting[from] * bytes_s / self.rates[from];
        self.rates[from] -= bytes_s;
        self.waiting[from] -= waiting;
        self.rates[to] += bytes_s;
        self.waiting[to] += waiting;
    }

    /// How far memories and lanes are in use.
    pub(super) fn usage(&self) -> Usage<'a> {
        let medium = |data: usize| Used {
            share: self.medium_use(data),
            threads: self.threads_at(data),
        };
        let waits = self.over_lanes(|pair| self.waiting[pair]);
        let lane = |(share, threads): (f64, f64)| Used {
            share: share.min(1.0),
            threads,
        };
        Usage {
            speeds: self.speeds,
            media: (0..self.speeds.nodes).map(medium).collect(),
            lanes: self.lane_use().into_iter().zip(waits).map(lane).collect(),
        }
    }

    /// Threads that read or write at a node's memory at one time.
    fn threads_at(&self, data: usize) -> f64 {
        let nodes = self.speeds.nodes;
        let readers: f64 = (0..nodes)
            .map(|reader| self.waiting[reader * nodes + data])
            .sum();
        let medium = &self.speeds.media[data];
        let writers = medium.as_ref().map_or(0.0, |medium| {
            self.written[data] / medium.write.stream_bytes_s
        });
        readers + writers
    }
}

impl Usage<'_> {
    /// The cost to copy this number of bytes from one node to another: the time of both memories and of the lanes
    /// between, each as far as it is in use. Threads that wait for them wait for as long.
    pub(super) fn copying(&self, from: usize, to: usize, bytes: u64) -> Option<Copying> {
        let media = &self.speeds.media;
        let (source, target) = (media[from].as_ref()?, media[to].as_ref()?);
        let bytes = bytes as f64;
        let mut copying = Copying {
            taken_s: 0.0,
            loss_thread_s: 0.0,
        };
        let mut take = |gives_bytes_s: f64, used: Used| {
            let taken_s = bytes / gives_bytes_s * used.share;
            copying.taken_s += taken_s;
            copying.loss_thread_s += taken_s * used.threads;
        };
        take(source.read.bytes_s, self.media[from]);
        take(target.write.bytes_s, self.media[to]);
        for lane in self.speeds.way(from, to) {
            take(self.speeds.lane_bytes_s[*lane], self.lanes[*lane]);
        }
        Some(copying)
    }
}
