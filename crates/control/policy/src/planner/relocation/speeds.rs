//! How fast data is read and copied, as far as the machine says.

use egeria_machine::{Machine, Medium, Paths, Side};

/// Where nothing is known of any memory: what a thread reads and writes of common DRAM, bytes/s. The memory itself is
/// never taken to be busy then.
const READ_BYTES_S: f64 = 4e9;
const WRITE_BYTES_S: f64 = 1e9;
const NEVER_BUSY_BYTES_S: f64 = 1e12;
/// How much longer an access to another node takes, where the kernel does not say.
const FARTHER: f64 = 1.5;

/// The machine's media and ways. Nodes are positions.
pub(super) struct Speeds<'a> {
    pub(super) nodes: usize,
    pub(super) paths: Option<&'a Paths>,
    /// `None` if the medium is not known, or its figures are invalid.
    pub(super) media: Vec<Option<Medium<'a>>>,
    /// Nothing is known of any memory.
    are_assumed: bool,
    distances: &'a [Vec<u32>],
    /// What the lanes carry, bytes/s.
    pub(super) lane_bytes_s: Vec<f64>,
    /// s/byte, `[reader * nodes + data]`; 0 where the medium is not known.
    undisturbed: Vec<f64>,
}

impl<'a> Speeds<'a> {
    pub(super) fn new(machine: &'a Machine, paths: Option<&'a Paths>) -> Speeds<'a> {
        let nodes = machine.nodes.len();
        let known = |node: usize| machine.file_medium(node).filter(is_sound);
        let mut media: Vec<Option<Medium<'a>>> = (0..nodes).map(known).collect();
        let are_assumed = media.iter().all(Option::is_none) && is_plain(machine);
        if are_assumed {
            media.fill(Some(assumed()));
        }
        let lanes = paths.into_iter().flat_map(|paths| &paths.lanes);
        let mut speeds = Speeds {
            nodes,
            paths,
            media,
            are_assumed,
            distances: &machine.distances,
            lane_bytes_s: lanes.map(|lane| lane.bytes_s).collect(),
            undisturbed: Vec::with_capacity(nodes * nodes),
        };
        for pair in 0..nodes * nodes {
            let seconds = speeds.seconds_per_byte(pair / nodes, pair % nodes);
            speeds.undisturbed.push(seconds);
        }
        speeds
    }

    /// The time of a thread without contention to read from a node's memory, s/byte; 0 if it is not known.
    pub(super) fn undisturbed(&self, reader: usize, data: usize) -> f64 {
        self.undisturbed[reader * self.nodes + data]
    }

    /// Lanes between two nodes; none where ways are not known.
    pub(super) fn way(&self, from: usize, to: usize) -> &[usize] {
        self.paths.map_or(&[], |paths| paths.way(from, to))
    }

    /// How many times as long an access takes, by the kernel's distances.
    fn times_farther(&self, reader: usize, data: usize) -> f64 {
        let row = self.distances.get(reader);
        let distance = row.and_then(|row| row.get(data));
        let times = distance.map_or(FARTHER, |distance| f64::from(*distance) / 10.0);
        times.max(1.0)
    }

    fn seconds_per_byte(&self, reader: usize, data: usize) -> f64 {
        let Some(medium) = &self.media[data] else {
            return 0.0;
        };
        let stream_bytes_s = medium.read.stream_bytes_s.min(medium.read.bytes_s);
        if reader == data {
            return 1.0 / stream_bytes_s;
        }
        if self.are_assumed {
            return self.times_farther(reader, data) / stream_bytes_s;
        }
        let far_bytes_s = medium.read.bytes_s * medium.read.remote_bandwidth_factor;
        let path_bandwidth_bytes_s = self
            .paths
            .map_or(f64::INFINITY, |paths| paths.widest_bytes_s(data, reader));
        let latency = medium.read.remote_latency_factor / stream_bytes_s;
        latency
            .max(1.0 / far_bytes_s)
            .max(1.0 / path_bandwidth_bytes_s)
    }
}

/// Whether all memory is DRAM: that of persistent memory differs too much.
fn is_plain(machine: &Machine) -> bool {
    let mut nodes = machine.nodes.iter();
    !machine.is_emulated() && !nodes.any(|node| machine.has_persistent_memory(node))
}

/// Memory of which nothing is known.
fn assumed<'a>() -> Medium<'a> {
    let side = |stream_bytes_s: f64| Side {
        bytes_s: NEVER_BUSY_BYTES_S,
        stream_bytes_s,
        latency_ns: 0.0,
        remote_latency_factor: 1.0,
        remote_bandwidth_factor: 1.0,
        curve: &[],
    };
    Medium {
        read: side(READ_BYTES_S),
        write: side(WRITE_BYTES_S),
        mix_curve: &[],
        remote_mix_curve: &[],
        directory_write_share: 0.0,
    }
}

fn is_sound(medium: &Medium<'_>) -> bool {
    let sides = [&medium.read, &medium.write];
    let is_rate = |rate: f64| rate > 0.0 && rate.is_finite();
    sides.iter().all(|side| {
        side.remote_latency_factor >= 1.0
            && side.remote_latency_factor.is_finite()
            && is_rate(side.bytes_s)
            && is_rate(side.stream_bytes_s)
            && is_rate(side.remote_bandwidth_factor)
    })
}
