//! What a plan heeds beyond its window, when it is one part of a larger decision.

use std::collections::HashMap;

use egeria_facts::ThreadKey;
use egeria_machine::{NodeId, Paths};

use super::thread::Thread;

/// What was decided before; nothing for NThread alone.
#[derive(Default)]
pub(crate) struct Guide<'a> {
    /// Threads that the plan before left away from their data, and the node it is on.
    pub(crate) displaced: HashMap<ThreadKey, NodeId>,
    /// Threads that others decide about, and where they will be. They count there, and this plan says nothing of them.
    pub(crate) held: HashMap<ThreadKey, NodeId>,
    /// Other traffic between nodes than file I/O. With it, a thread that leaves a node goes where the way from its
    /// data carries most, instead of to the least loaded node.
    pub(crate) roads: Option<Roads<'a>>,
}

/// The traffic on the lanes between nodes. Whole bytes, so that taking off is exact.
#[derive(Clone)]
pub(crate) struct Roads<'a> {
    paths: &'a Paths,
    nodes: usize,
    /// Traffic other than the window's threads, per lane, bytes/s.
    others_bytes_s: Vec<f64>,
    /// Bytes that the window's threads read over each lane.
    bytes: Vec<u128>,
    /// Flows that use each lane.
    flows: Vec<u32>,
}

impl<'a> Roads<'a> {
    /// No threads yet; flows of others as (memory's node, reader's node, bytes/s), by position.
    pub(crate) fn new(
        paths: &'a Paths,
        nodes: usize,
        others: impl Iterator<Item = (usize, usize, f64)>,
    ) -> Roads<'a> {
        let mut roads = Roads {
            paths,
            nodes,
            others_bytes_s: vec![0.0; paths.lanes.len()],
            bytes: vec![0; paths.lanes.len()],
            flows: vec![0; paths.lanes.len()],
        };
        for (memory, reader, bytes_s) in others {
            for lane in paths.way(memory, reader) {
                roads.others_bytes_s[*lane] += bytes_s;
                roads.flows[*lane] += 1;
            }
        }
        roads
    }

    /// Adds what a thread reads to where it is `at`.
    pub(super) fn put_on(&mut self, thread: &Thread<'_>) {
        for lane in lanes_of(self.paths, self.nodes, thread) {
            self.bytes[lane.0] += u128::from(lane.1);
            self.flows[lane.0] += 1;
        }
    }

    /// Takes that back.
    pub(super) fn take_off(&mut self, thread: &Thread<'_>) {
        for lane in lanes_of(self.paths, self.nodes, thread) {
            self.bytes[lane.0] -= u128::from(lane.1);
            self.flows[lane.0] -= 1;
        }
    }

    /// What the way from a thread's data to each node would carry for it, bytes/s: of each node it reads from, by how
    /// much it reads there, what the narrowest lane has left, or an even part of it if that is more. Within a node
    /// nothing is narrower than the widest lane. 0 for a thread that reads nothing.
    pub(super) fn widths_bytes_s(&self, thread: &Thread<'_>, seconds: f64) -> Vec<f64> {
        let mut without = self.clone();
        without.take_off(thread);
        let lanes = self.paths.lanes.iter();
        let widest = lanes.map(|lane| lane.bytes_s).fold(0.0, f64::max);
        let part_of = |data: usize, node: usize| match thread.read_from(data) {
            0 => 0.0,
            bytes => {
                let way = self.paths.way(data, node).iter();
                let free = way.map(|lane| without.free_bytes_s(*lane, seconds));
                bytes as f64 / thread.read as f64 * free.fold(widest, f64::min)
            }
        };
        let width = |node: usize| (0..self.nodes).map(|data| part_of(data, node)).sum();
        (0..self.nodes).map(width).collect()
    }

    /// What one more flow gets of a lane at least, bytes/s.
    fn free_bytes_s(&self, lane: usize, seconds: f64) -> f64 {
        let all_bytes_s = self.paths.lanes[lane].bytes_s;
        let used_bytes_s = if seconds > 0.0 {
            self.bytes[lane] as f64 / seconds + self.others_bytes_s[lane]
        } else {
            0.0
        };
        let even_bytes_s = all_bytes_s / (f64::from(self.flows[lane]) + 1.0);
        (all_bytes_s - used_bytes_s).max(even_bytes_s)
    }
}

/// The lanes that a thread's reads cross, with the bytes.
fn lanes_of(
    paths: &Paths,
    nodes: usize,
    thread: &Thread<'_>,
) -> impl Iterator<Item = (usize, u64)> {
    let at = thread.at;
    let data = (0..nodes).map(|data| (data, thread.read_from(data)));
    let crossing = data.filter(move |(data, bytes)| *data != at && *bytes > 0);
    let lanes: Vec<(usize, u64)> = crossing
        .flat_map(|(data, bytes)| paths.way(data, at).iter().map(move |lane| (*lane, bytes)))
        .collect();
    lanes.into_iter()
}
