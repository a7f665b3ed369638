//! Machines of validation sets that no profile describes: what a source says of one, and the rest as a profile has it.

use egeria_machine::{CpuId, Link, Machine, Memory, MemoryKind, Node, NodeId};
use serde::Deserialize;

use crate::error::{Result, shipped};

const TABLE: &str = include_str!("../data/validation_machines.toml");
const NAME: &str = "validation_machines.toml";
/// Assumed: the kernel's usual distances.
const DISTANCES: [u32; 3] = [10, 12, 21];
const BYTES_PER_GB: f64 = 1e9;

#[derive(Deserialize)]
struct Table {
    machine: Vec<Declared>,
}

/// Two sockets of equal nodes. All figures are inputs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Declared {
    name: String,
    #[allow(dead_code, reason = "it explains the table to its readers")]
    source: String,
    /// The profile that says the rest.
    like: String,
    #[serde(default = "one")]
    nodes_per_socket: u16,
    /// Of a node.
    cores: u16,
    read_gb_s: f64,
    latency_ns: Option<f64>,
    /// From the other socket; with `latency_ns`.
    remote_latency_ns: Option<f64>,
    remote_read_gb_s: Option<f64>,
    expander: Option<Expander>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expander {
    like: String,
    read_gb_s: f64,
    latency_ns: f64,
}

fn one() -> u16 {
    1
}

/// The declared machine of this name, else the profile of this name.
pub(crate) fn machine(name: &str) -> Result<Machine> {
    let table: Table = toml::from_str(TABLE).map_err(|error| shipped(NAME, error.message()))?;
    match table.machine.iter().find(|each| each.name == name) {
        Some(declared) => declared.machine(),
        None => profile(name),
    }
}

fn profile(name: &str) -> Result<Machine> {
    Machine::profile(name).map_err(|error| shipped(name, error))
}

impl Declared {
    fn machine(&self) -> Result<Machine> {
        let like = profile(&self.like)?;
        let node = like.nodes.first();
        let node = node.ok_or_else(|| shipped(NAME, "a profile has no nodes"))?;
        let count = 2 * self.nodes_per_socket;
        let mut nodes: Vec<Node> = (0..count).map(|id| self.node(node, id)).collect();
        let mut links = self.links(&like, count);
        if let Some(expander) = &self.expander {
            nodes.push(expander.node(count)?);
            links.push(link(0, count, expander.read_gb_s * BYTES_PER_GB, 0.0));
        }
        let ids = 0..nodes.len() as u16;
        let row = |from: u16| ids.clone().map(|to| self.distance(from, to)).collect();
        let mut machine = Machine {
            name: self.name.clone(),
            distances: ids.clone().map(row).collect(),
            nodes,
            ..like
        };
        machine.interconnect.links = links;
        machine.interconnect.routes = Vec::new();
        machine.validate().map_err(|error| shipped(NAME, error))?;
        Ok(machine)
    }

    fn node(&self, like: &Node, id: u16) -> Node {
        let mut node = like.clone();
        node.id = NodeId(id);
        let first = id * self.cores;
        node.cpus = (first..first + self.cores).map(CpuId).collect();
        for memory in &mut node.hardware.memories {
            scale(memory, self.read_gb_s, self.latency_ns);
        }
        node
    }

    /// Between nodes of a socket, as wide as the memory: no bound. Between sockets, what the source says of reads.
    fn links(&self, like: &Machine, count: u16) -> Vec<Link> {
        let between = like.interconnect.links.first();
        let width = |link: &Link| link.bytes_s / BYTES_PER_GB;
        let remote_gb_s = self.remote_read_gb_s.or(between.map(width));
        let more_ns = self.remote_latency_ns.zip(self.latency_ns);
        let more_ns = more_ns.map(|(remote, local)| (remote - local) / 2.0);
        let latency_ns = more_ns.or(between.map(|link| link.latency_ns));
        let pairs = (0..count).flat_map(|from| (from + 1..count).map(move |to| (from, to)));
        pairs
            .map(|(from, to)| {
                if from / self.nodes_per_socket == to / self.nodes_per_socket {
                    link(from, to, self.read_gb_s * BYTES_PER_GB, 0.0)
                } else {
                    let bytes_s = remote_gb_s.unwrap_or(self.read_gb_s) * BYTES_PER_GB;
                    link(from, to, bytes_s, latency_ns.unwrap_or_default())
                }
            })
            .collect()
    }

    fn distance(&self, from: u16, to: u16) -> u32 {
        if from == to {
            DISTANCES[0]
        } else if from / self.nodes_per_socket == to / self.nodes_per_socket {
            DISTANCES[1]
        } else {
            DISTANCES[2]
        }
    }
}

impl Expander {
    fn node(&self, id: u16) -> Result<Node> {
        let like = profile(&self.like)?;
        let is_expander = |memory: &Memory| memory.kind == MemoryKind::Expander;
        let mut nodes = like.nodes.into_iter();
        let node = nodes.find(|node| node.hardware.memories.iter().any(is_expander));
        let mut node = node.ok_or_else(|| shipped(NAME, "a profile has no expander"))?;
        node.id = NodeId(id);
        for memory in &mut node.hardware.memories {
            scale(memory, self.read_gb_s, Some(self.latency_ns));
        }
        Ok(node)
    }
}

/// Writes keep their share of what is read; one thread gets no more than all.
fn scale(memory: &mut Memory, read_gb_s: f64, latency_ns: Option<f64>) {
    let read_bytes_s = read_gb_s * BYTES_PER_GB;
    memory.write_bytes_s *= read_bytes_s / memory.read_bytes_s;
    memory.read_bytes_s = read_bytes_s;
    memory.read_stream_bytes_s = memory.read_stream_bytes_s.min(read_bytes_s);
    memory.write_stream_bytes_s = memory.write_stream_bytes_s.min(memory.write_bytes_s);
    if let Some(latency_ns) = latency_ns {
        (memory.read_latency_ns, memory.write_latency_ns) = (latency_ns, latency_ns);
    }
}

fn link(from: u16, to: u16, bytes_s: f64, latency_ns: f64) -> Link {
    Link {
        from: NodeId(from),
        to: NodeId(to),
        bytes_s,
        back_bytes_s: Some(bytes_s),
        latency_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::{NAME, TABLE, Table, machine};

    #[test]
    fn every_declared_machine_is_one_and_has_its_inputs() {
        let table: Table = toml::from_str(TABLE).expect(NAME);
        for declared in &table.machine {
            let machine = machine(&declared.name).unwrap();
            let memory = &machine.nodes[0].hardware.memories[0];
            assert_eq!(memory.read_bytes_s, declared.read_gb_s * 1e9);
            assert_eq!(machine.nodes[1].cpus.len(), usize::from(declared.cores));
            if let Some(latency_ns) = declared.latency_ns {
                assert_eq!(memory.read_latency_ns, latency_ns);
            }
            assert!(machine.paths().unwrap().is_some(), "{}", declared.name);
        }
    }

    #[test]
    fn every_row_of_the_second_set_names_a_machine() {
        let set = include_str!("../data/validation_dram.toml");
        let facts = egeria_machine::Machine::read_facts(set, "validation_dram.toml").unwrap();
        assert!(facts.len() >= 40);
        for fact in facts {
            let machine = machine(&fact.machine.unwrap()).unwrap();
            let node = machine.node(fact.node).unwrap();
            let memories = &node.hardware.memories;
            assert!(memories.iter().any(|memory| memory.kind == fact.memory));
            assert!(machine.node(fact.home).is_some());
        }
    }
}
