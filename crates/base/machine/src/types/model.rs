//! The types that say what a machine is, and how to look things up in them.

use serde::{Deserialize, Serialize};

use crate::names::NamedPath;
use crate::types::ids::{CpuId, NodeId};
use crate::types::medium::points;
use crate::{EmulatedMachine, EmulatedNode, Hardware, Interconnect, MemoryKind};

/// What the kernel calls the distance of a node to itself.
pub const LOCAL_DISTANCE: u32 = 10;

/// Where the description of a machine came from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum Source {
    /// Read from the kernel's files below this root (`/` on the running machine).
    Sysfs(NamedPath),
    /// Read from this TOML file.
    File(NamedPath),
    /// A profile that ships with Egeria.
    Profile(String),
}

/// A machine: its nodes, the distances between them, and whether they are emulated.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// A short name for people.
    pub name: String,
    /// Where this description came from.
    pub source: Source,
    /// The nodes, ascending by id; at least one, at most [`MAX_NODES`](crate::MAX_NODES).
    pub nodes: Vec<Node>,
    /// `distances[from][to]`, by position in `nodes`; square, [`LOCAL_DISTANCE`] is local.
    pub distances: Vec<Vec<u32>>,
    /// What lies between the nodes, where that is known.
    #[serde(default)]
    pub interconnect: Interconnect,
    /// Present when the nodes are declared rather than real.
    pub emulated: Option<EmulatedMachine>,
    /// What was odd but could be lived with, one line each.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// One node: CPUs and memory that are close to each other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Node {
    /// The node's number.
    pub id: NodeId,
    /// The real CPUs, ascending; empty on a memory-only node (CXL).
    ///
    /// On an emulated machine two nodes may stand on one CPU, see [`Machine::stand_on_cpus`].
    pub cpus: Vec<CpuId>,
    /// The socket that the CPUs are in, where it is known (the kernel's package); see [`Machine::groups`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<u32>,
    /// DRAM (or CXL memory) of the node, bytes; 0 also when that is unknown, see [`Node::memory`].
    pub memory_bytes: u64,
    /// Free part of it when it was read.
    pub free_bytes: Option<u64>,
    /// Persistent or device-DAX memory that belongs to the node.
    pub persistent_regions: Vec<PersistentRegion>,
    /// How fast the nearest CPUs reach the node's memory, when firmware (HMAT) or a file says.
    pub bandwidth: Option<AccessClass>,
    /// What its pools gave the node's own threads, if that was measured and no memory below says it.
    #[serde(default)]
    pub pool_bandwidth: Option<PoolBandwidth>,
    /// Memories, controllers and cache, when a file says what they are.
    #[serde(default)]
    pub hardware: Hardware,
}

impl Node {
    /// DRAM (or CXL memory) of the node, bytes; `None` when it is unknown. Of a node without memory it is known that
    /// none is free.
    pub fn memory(&self) -> Option<u64> {
        let is_known = self.memory_bytes > 0 || self.free_bytes.is_some();
        is_known.then_some(self.memory_bytes)
    }
}

/// A piece of persistent or device-DAX memory.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PersistentRegion {
    /// The kernel's device name, as `region0`, `dax0.0` or `mem0`.
    pub name: String,
    /// Which bus it was found on.
    pub kind: RegionKind,
    pub bytes: u64,
    /// What survives a power cut without a flush: `cpu_cache`, `memory_controller`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence_domain: Option<String>,
    /// Granularity of mappings (device DAX), bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align_bytes: Option<u64>,
}

/// The kinds of [`PersistentRegion`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionKind {
    /// An NVDIMM region (`/sys/bus/nd/devices/region*`).
    Nvdimm,
    /// A device-DAX instance (`/sys/bus/dax/devices/*`).
    Dax,
    /// The persistent part of a CXL memory device (`/sys/bus/cxl/devices/mem*`).
    Cxl,
}

/// Speed of memory as its nearest initiators see it
/// (`node*/access{0,1}/initiators`, from the firmware's HMAT).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessClass {
    /// Read bandwidth, bytes/s.
    pub read_bytes_s: f64,
    /// Write bandwidth, bytes/s.
    pub write_bytes_s: f64,
    pub read_latency_ns: f64,
    pub write_latency_ns: f64,
    /// The nodes with the CPUs (or devices) that these figures are for.
    #[serde(default)]
    pub initiators: Vec<NodeId>,
}

/// The most that threads of a node got of the pool on the same node, with the best number of threads.
///
/// The other figures mean what they mean of a [`crate::Memory`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolBandwidth {
    /// Reading, bytes/s.
    pub read_bytes_s: f64,
    /// Writing, bytes/s.
    pub write_bytes_s: f64,
    /// One thread alone, bytes/s; `None` if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_stream_bytes_s: Option<f64>,
    /// One thread alone, bytes/s; `None` if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_stream_bytes_s: Option<f64>,
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "points"
    )]
    pub read_curve: Vec<(u32, f64)>,
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "points"
    )]
    pub write_curve: Vec<(u32, f64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix_curve: Vec<[f64; 2]>,
}

impl Machine {
    /// Gives emulated nodes that name no CPUs the `online` ones: the CPU at position `i` goes to
    /// node `i mod nodes`, and with fewer CPUs than nodes, node `k` stands on CPU `k mod CPUs`.
    /// A machine where any node names CPUs, or that is not emulated, stays as it is.
    #[must_use]
    pub fn stand_on_cpus(mut self, online: &[CpuId]) -> Machine {
        if self.emulated.is_none()
            || online.is_empty()
            || self.nodes.iter().any(|node| !node.cpus.is_empty())
        {
            return self;
        }
        let has_cores: Vec<bool> = self
            .nodes
            .iter()
            .map(|node| self.core_count(node) > 0)
            .collect();
        let count = has_cores.iter().filter(|has| **has).count();
        let nodes = self.nodes.iter_mut().zip(has_cores).filter(|(_, has)| *has);
        for (index, (node, _)) in nodes.enumerate() {
            node.cpus = online.iter().copied().skip(index).step_by(count).collect();
            if node.cpus.is_empty() {
                node.cpus = vec![online[index % online.len()]];
            }
        }
        self
    }

    /// Position of a node in `nodes`, `distances` and the emulated nodes.
    pub fn index_of(&self, id: NodeId) -> Option<usize> {
        self.nodes.iter().position(|node| node.id == id)
    }

    /// Take what a node's pool gives; nothing where there is no such node.
    pub fn set_pool_bandwidth(&mut self, id: NodeId, bandwidth: PoolBandwidth) {
        if let Some(index) = self.index_of(id) {
            self.nodes[index].pool_bandwidth = Some(bandwidth);
        }
    }

    /// Whether persistent memory was found on the node, is said to be there, or is emulated there.
    pub fn has_persistent_memory(&self, node: &Node) -> bool {
        let mut memories = node.hardware.memories.iter();
        !node.persistent_regions.is_empty()
            || memories.any(|memory| memory.kind == MemoryKind::Persistent)
            || self
                .emulated_node(node.id)
                .is_some_and(|emulated| emulated.kind == MemoryKind::Persistent)
    }

    /// Cores of a node: those an emulated one declares, else its CPUs; 0 on a memory-only node.
    pub fn core_count(&self, node: &Node) -> usize {
        let Some(emulated) = &self.emulated else {
            return node.cpus.len();
        };
        let index = self.index_of(node.id).unwrap_or(usize::MAX);
        let by_table = emulated.nodes.get(index).map(|node| node.cores);
        let cores = by_table.or_else(|| emulated.cores.get(index).copied());
        cores.map_or(node.cpus.len(), |cores| cores as usize)
    }

    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The node a CPU belongs to (the first, when emulated nodes share a CPU).
    pub fn node_of_cpu(&self, cpu: CpuId) -> Option<NodeId> {
        let node = self
            .nodes
            .iter()
            .find(|node| node.cpus.binary_search(&cpu).is_ok())?;
        Some(node.id)
    }

    /// Distance from one node to another as the kernel or the file gives it.
    pub fn distance(&self, from: NodeId, to: NodeId) -> Option<u32> {
        let (from, to) = (self.index_of(from)?, self.index_of(to)?);
        self.distances.get(from)?.get(to).copied()
    }

    /// How many times as long as a local access one takes to another node's memory (by position), by the kernel's
    /// distances: they hold for latencies, roughly. 1.5 where they are not known.
    pub fn distance_factor(&self, home: usize, memory: usize) -> f64 {
        if home == memory {
            return 1.0;
        }
        let distance = self.distances.get(home).and_then(|row| row.get(memory));
        let factor = distance.map_or(1.5, |distance| {
            f64::from(*distance) / f64::from(LOCAL_DISTANCE)
        });
        factor.max(1.0)
    }

    /// Whether the nodes are declared rather than real.
    pub fn is_emulated(&self) -> bool {
        self.emulated.is_some()
    }

    /// The declaration of an emulated node.
    pub fn emulated_node(&self, id: NodeId) -> Option<&EmulatedNode> {
        self.emulated.as_ref()?.nodes.get(self.index_of(id)?)
    }
}
