//! A machine description of what was measured.
//!
//! ```text
//!   memory of a node   what the nearest node with CPUs got of it: its own, if it has any
//!   its curves         what more threads than got most got of that, and fewer where each of them got less than one alone
//!   lines in flight    what one thread got times how long it waits for a line (Little's law); behind a queue that loads
//!                      were seen to wait in, what that says (module `queues`)
//!   mixing             what half loads and half stores got of what the two give alone, by as many threads as get most
//!   from elsewhere     how many times as long one thread's loads and stores take where no link holds them up; what then is
//!                      left of the bandwidth of memory and link
//! ```
//!
//! Links and routes are described in module `interconnect`.

use std::collections::BTreeMap;

use egeria_machine::curves::{
    Crowd, MIN_BYTES_S, MIN_SHARE, bandwidth, curve, mix_curve, mix_factor, rounded,
};
use egeria_machine::{Cache, CpuId, Hardware, MAX_MEMORIES, Machine, Memory, NodeId};
use egeria_stats::statistics::median;

use crate::LINE_BYTES;
use crate::figures::{Calibration, Latency, MeasuredMemory, Stream};

/// Most lines in flight that are written down.
const MAX_LINES: f64 = 4096.0;
/// Most that another node's threads may take longer.
const MAX_TIMES: f64 = 100.0;

impl Calibration {
    /// The machine that was measured, with what was found of its memories, caches and the ways between its nodes.
    pub fn machine(&self, measured: &Machine) -> Machine {
        let mut machine = measured.clone();
        machine.warnings.clear();
        stand_on_own_cpus(&mut machine);
        for node in &mut machine.nodes {
            node.free_bytes = None;
            node.hardware = self.hardware(measured, node.id);
        }
        self.describe_interconnect(&mut machine);
        machine
    }

    fn hardware(&self, machine: &Machine, node: NodeId) -> Hardware {
        let caches = self.caches.iter().find(|cache| cache.node == node);
        let of_node = self.memories.iter().enumerate();
        let of_node = of_node.filter(|(_, memory)| memory.node == node);
        let described = of_node.filter_map(|(index, memory)| self.memory(machine, index, memory));
        Hardware {
            cache: caches.map(|cache| Cache {
                bytes: cache.bytes,
                latency_ns: rounded(cache.latency_ns),
                read_bytes_s: bandwidth(cache.read_bytes_s),
                parts: 1,
            }),
            memories: described.take(MAX_MEMORIES).collect(),
            controllers: self.controllers(node),
            ..Hardware::default()
        }
    }

    fn memory(&self, machine: &Machine, index: usize, of: &MeasuredMemory) -> Option<Memory> {
        let home = self.nearest(machine, of.node)?;
        let streams = self.streams_of(home, index);
        let crowds = self.crowds(home, index);
        let (read_bytes_s, read_curve) = curve(&crowds, |crowd| crowd.read_bytes_s);
        let (write_bytes_s, write_curve) = curve(&crowds, |crowd| crowd.write_bytes_s);
        let one = streams.iter().find(|stream| stream.threads == 1)?;
        let latency = self.latency(home, index)?;
        let [read_factor, write_factor] = self.remote_factors(machine, index, home);
        let at_once = self.lines_at_once(index);
        let in_flight = |is_written: bool, bytes_s: f64, latency_ns: f64| {
            let queue = self.queue_behind(index, is_written);
            whole_lines(queue.map_or(lines(bytes_s, latency_ns), |queue| queue.lines))
        };
        Some(Memory {
            kind: of.kind,
            controller: 0,
            modules: of.modules.unwrap_or(1).max(1),
            bytes: of.bytes,
            read_bytes_s,
            write_bytes_s,
            read_stream_bytes_s: bandwidth(one.read_bytes_s),
            write_stream_bytes_s: bandwidth(one.nontemporal_write_bytes_s),
            read_latency_ns: rounded(latency.read_ns),
            write_latency_ns: rounded(latency.write_ns),
            remote_latency_factor: 1.0,
            remote_read_bandwidth_factor: read_factor,
            remote_write_bandwidth_factor: write_factor,
            read_curve,
            write_curve,
            granularity_bytes: self.granularity_bytes(index).unwrap_or(LINE_BYTES as u64),
            directory_write_share: 0.0,
            remote_read_latency_factor: self.remote_times(machine, index, false),
            remote_write_latency_factor: self.remote_times(machine, index, true),
            // Not measured.
            sequential_read_latency_ns: None,
            interleave: None,
            mix_curve: self.mix_curve(index, &[home]),
            remote_mix_curve: self.mix_curve(index, &self.others(home)),
            read_lines_at_once: at_once.map(|[read, _]| whole_lines(read)),
            write_lines_at_once: at_once.map(|[_, write]| whole_lines(write)),
            read_lines_in_flight: Some(in_flight(false, one.read_bytes_s, latency.read_ns)),
            write_lines_in_flight: Some(in_flight(
                true,
                one.nontemporal_write_bytes_s,
                latency.write_ns,
            )),
        })
    }

    /// Memories that are measured but find no place in a machine file, in words.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let mut counts = BTreeMap::<NodeId, usize>::new();
        for memory in &self.memories {
            *counts.entry(memory.node).or_default() += 1;
        }
        counts.retain(|_, count| *count > MAX_MEMORIES);
        let line = |(node, count): (NodeId, usize)| {
            format!(
                "a machine file holds {MAX_MEMORIES} memories of a node and node {} has {count}: of the last {} nothing is described; measure fewer at once",
                node.0,
                count - MAX_MEMORIES
            )
        };
        counts.into_iter().map(line).collect()
    }

    /// Nodes whose CPUs were used, but for this one.
    fn others(&self, home: NodeId) -> Vec<NodeId> {
        let used = self.latencies.iter().map(|latency| latency.cpu_node);
        let mut others: Vec<NodeId> = used.filter(|from| *from != home).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// What is left of a memory while half of the bytes are written, from each of these nodes: the middle of all; none where
    /// nothing is lost or won.
    fn mix_curve(&self, memory: usize, from: &[NodeId]) -> Vec<[f64; 2]> {
        let left = |from: &NodeId| mix_factor(&self.crowds(*from, memory));
        let all: Vec<f64> = from.iter().filter_map(left).collect();
        mix_curve(median(&all))
    }

    /// What threads of a node got of a memory, by their number.
    fn crowds(&self, from: NodeId, memory: usize) -> Vec<Crowd> {
        let crowd = |stream: &Stream| Crowd {
            threads: stream.threads,
            read_bytes_s: stream.read_bytes_s,
            write_bytes_s: stream.nontemporal_write_bytes_s,
            mixed_bytes_s: stream.mixed_bytes_s,
        };
        self.streams_of(from, memory)
            .into_iter()
            .map(crowd)
            .collect()
    }

    /// The node itself when its CPUs were used, else the one at the least distance whose were.
    pub(crate) fn nearest(&self, machine: &Machine, node: NodeId) -> Option<NodeId> {
        let used = self.latencies.iter().map(|latency| latency.cpu_node);
        used.min_by_key(|&from| (from != node, machine.distance(from, node), from))
    }

    fn streams_of(&self, from: NodeId, memory: usize) -> Vec<&Stream> {
        let of = |stream: &&Stream| stream.cpu_node == from && stream.memory == memory;
        self.streams.iter().filter(of).collect()
    }

    pub(crate) fn latency(&self, from: NodeId, memory: usize) -> Option<&Latency> {
        let mut of = self.latencies.iter();
        of.find(|latency| latency.cpu_node == from && latency.memory == memory)
    }

    /// What CPUs of a node read and write of a memory at most, bytes/s.
    fn most(&self, from: NodeId, memory: usize) -> [f64; 2] {
        let streams = self.streams_of(from, memory);
        let most =
            |of: fn(&Stream) -> f64| streams.iter().map(|stream| of(stream)).fold(0.0, f64::max);
        [
            most(|stream| stream.read_bytes_s),
            most(|stream| stream.nontemporal_write_bytes_s),
        ]
    }

    /// Shares of a memory's bandwidth that are left for accesses from other nodes: the middle of all nodes. Where the way between
    /// carries no more, nothing is known of that.
    fn remote_factors(&self, machine: &Machine, memory: usize, home: NodeId) -> [f64; 2] {
        // Medians of measurements are no closer than this.
        const SAME: f64 = 0.97;
        let node = self.memories[memory].node;
        let own = self.most(home, memory);
        let others = machine.nodes.iter().map(|other| other.id);
        let others: Vec<NodeId> = others
            .filter(|&other| other != node && other != home)
            .collect();
        [0, 1].map(|kind| {
            let share = |&other: &NodeId| {
                let found = self.most(other, memory)[kind];
                let lane = match kind {
                    0 => self.lane_bytes_s(node, other),
                    _ => self.lane_bytes_s(other, node),
                };
                let share = if found < SAME * lane {
                    found / own[kind].max(MIN_BYTES_S)
                } else {
                    1.0
                };
                (found > 0.0).then_some(share)
            };
            let shares: Vec<f64> = others.iter().filter_map(share).collect();
            if shares.is_empty() {
                1.0
            } else {
                rounded(median(&shares).unwrap_or(0.0)).clamp(MIN_SHARE, 1.0)
            }
        })
    }

    /// How many times as long what one thread of another node does takes, where no link holds it up: the middle of all nodes;
    /// `None` where it takes no longer.
    pub(crate) fn remote_times(
        &self,
        machine: &Machine,
        memory: usize,
        is_written: bool,
    ) -> Option<f64> {
        // Medians of measurements are no closer than this.
        const SAME: f64 = 1.02;
        let node = self.memories[memory].node;
        let home = self.nearest(machine, node)?;
        let alone = |from: NodeId| {
            let one = self.streams_of(from, memory);
            let one = one.into_iter().find(|stream| stream.threads == 1)?;
            let bytes_s = if is_written {
                one.nontemporal_write_bytes_s
            } else {
                one.read_bytes_s
            };
            Some(bytes_s).filter(|bytes_s| *bytes_s > 0.0)
        };
        let near = alone(home)?;
        let times = |other: NodeId| {
            let link = if is_written {
                self.lane_bytes_s(other, node)
            } else {
                self.lane_bytes_s(node, other)
            };
            Some(near.min(link) / alone(other)?)
        };
        let others = self.others(home).into_iter().filter(|other| *other != node);
        let all: Vec<f64> = others.filter_map(times).collect();
        let times = median(&all).map(rounded)?;
        (times > SAME).then_some(times.min(MAX_TIMES))
    }

    /// The most that went from one node to another: read there, or written from here; 0 when nobody tried.
    pub(crate) fn lane_bytes_s(&self, from: NodeId, to: NodeId) -> f64 {
        let memories = self.memories.iter().enumerate();
        let carried = memories.map(|(index, memory)| match memory.node {
            node if node == from => self.most(to, index)[0],
            node if node == to => self.most(from, index)[1],
            _ => 0.0,
        });
        carried.fold(0.0, f64::max)
    }
}

/// The nodes of an emulated machine get CPUs, as many as they have cores: what was found is described as a machine of its own.
fn stand_on_own_cpus(machine: &mut Machine) {
    if !machine.is_emulated() {
        return;
    }
    let mut next = 0;
    for index in 0..machine.nodes.len() {
        let cores = machine.core_count(&machine.nodes[index]) as u16;
        machine.nodes[index].cpus = (next..next + cores).map(CpuId).collect();
        next += cores;
    }
    machine.emulated = None;
}

/// Lines on their way when one thread gets so much and waits so long for each.
fn lines(bytes_s: f64, latency_ns: f64) -> f64 {
    bytes_s * latency_ns / 1e9 / LINE_BYTES as f64
}

fn whole_lines(lines: f64) -> u32 {
    lines.round().clamp(1.0, MAX_LINES) as u32
}

#[cfg(test)]
mod tests {
    use egeria_machine::MemoryKind;

    use super::*;

    #[test]
    fn memories_without_a_place_in_a_file_are_named() {
        let memory = |node: u16| MeasuredMemory {
            node: NodeId(node),
            kind: MemoryKind::Dram,
            path: None,
            is_direct: true,
            bytes: 0,
            modules: None,
        };
        let mut calibration = Calibration {
            memories: [0, 1]
                .repeat(MAX_MEMORIES)
                .into_iter()
                .map(memory)
                .collect(),
            ..Calibration::default()
        };
        assert_eq!(calibration.left_out(), [""; 0]);
        calibration.memories.extend([1, 1].map(memory));
        let lines = calibration.left_out();
        assert_eq!(lines.len(), 1);
        assert!(
            lines[0].contains("node 1 has 10: of the last 2"),
            "{lines:?}"
        );
    }
}
