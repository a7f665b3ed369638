//! How fast data is read and copied, as far as the machine says.

use egeria_machine::{Machine, Medium, Paths, Side};

/// One kind of access to memory of which nothing is known (assumed): DRAM of a few channels that no reader crowds.
const ASSUMED_SIDE: Side<'static> = Side {
    bytes_s: 100e9,
    stream_bytes_s: 10e9,
    latency_ns: 90.0,
    remote_latency_factor: 1.0,
    remote_bandwidth_factor: 1.0,
    curve: &[],
};
const ASSUMED: Medium<'static> = Medium {
    read: ASSUMED_SIDE,
    write: ASSUMED_SIDE,
    mix_curve: &[],
    remote_mix_curve: &[],
    directory_write_share: 0.0,
};

/// The machine's media and ways. Nodes are positions.
pub(super) struct Speeds<'a> {
    pub(super) nodes: usize,
    pub(super) paths: Option<&'a Paths>,
    /// `None` if the medium is not known, or its figures are invalid.
    pub(super) media: Vec<Option<Medium<'a>>>,
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
        // Where figures are known of some memories, guesses about the others could not be compared with them.
        let is_assumed = (0..nodes).all(|node| machine.file_medium(node).is_none());
        if is_assumed {
            media.fill(Some(ASSUMED));
        }
        let lanes = paths.into_iter().flat_map(|paths| &paths.lanes);
        let mut speeds = Speeds {
            nodes,
            paths,
            media,
            lane_bytes_s: lanes.map(|lane| lane.bytes_s).collect(),
            undisturbed: Vec::with_capacity(nodes * nodes),
        };
        for pair in 0..nodes * nodes {
            let (reader, data) = (pair / nodes, pair % nodes);
            let factor = if is_assumed {
                machine.distance_factor(reader, data)
            } else {
                1.0
            };
            let seconds = speeds.seconds_per_byte(reader, data) * factor;
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

    fn seconds_per_byte(&self, reader: usize, data: usize) -> f64 {
        let Some(medium) = &self.media[data] else {
            return 0.0;
        };
        let stream_bytes_s = medium.read.stream_bytes_s.min(medium.read.bytes_s);
        if reader == data {
            return 1.0 / stream_bytes_s;
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
