//! TOML machine files: a machine that is written down rather than detected.
//!
//! A file describes a real machine (to keep, compare or simulate it), or declares *emulated*
//! nodes; then `[emulation]` is there and every node has an `emulated` table.
//!
//! ```
//! let text = r#"
//!     name = "two-by-four"
//!     distances = [[10, 21], [21, 10]]   # in the order of the nodes; default 10 and 20
//!
//!     [emulation]                        # leave out to describe a real machine
//!     dilation = 16.0                    # wall time per machine time, 1 to 65536
//!     timing = true                      # false: nodes, but no slowness
//!
//!     [[nodes]]
//!     id = 0                             # ascending
//!     cpus = "0-3"                       # real CPUs; see below
//!     memory_bytes = 64_000_000_000      # optional; 0: the node has none
//!     [nodes.emulated]                   # the meaning of each: EmulatedNode
//!     cores = 4
//!     dimms = 1
//!     read_bytes_s = 6.8e9
//!     write_bytes_s = 1.85e9
//!     read_stream_bytes_s = 3.4e9
//!     write_stream_bytes_s = 0.9e9
//!     read_latency_ns = 305.0
//!     write_latency_ns = 81.0
//!     remote_latency_factor = 1.66
//!     remote_read_bandwidth_factor = 0.654
//!     remote_write_bandwidth_factor = 0.654
//!     read_curve = [[1, 1.0], [8, 0.95]] # [threads, share of read_bytes_s], ascending
//!     write_curve = [[1, 1.0]]
//!     llc_bytes = 65536                  # optional, all three: the cache its threads share
//!     llc_latency_ns = 20.0
//!     llc_read_bytes_s = 6.53e9
//!
//!     [[nodes]]
//!     id = 1
//!     cpus = "4-7"
//!     [nodes.emulated]
//!     cores = 4
//!     dimms = 1
//!     read_bytes_s = 6.8e9
//!     write_bytes_s = 1.85e9
//!     read_stream_bytes_s = 3.4e9
//!     write_stream_bytes_s = 0.9e9
//!     read_latency_ns = 305.0
//!     write_latency_ns = 81.0
//!     remote_latency_factor = 1.66
//!     remote_read_bandwidth_factor = 0.654
//!     remote_write_bandwidth_factor = 0.654
//!     read_curve = [[1, 1.0]]
//!     write_curve = [[1, 1.0]]
//! "#;
//! let machine = egeria_machine::Machine::from_toml(text, "two-by-four.toml".as_ref())?;
//! assert_eq!(machine.nodes.len(), 2);
//! assert!(machine.is_emulated());
//! # Ok::<(), egeria_machine::MachineError>(())
//! ```
//!
//! What lies between the nodes may be said at the end; then every node must reach every other:
//!
//! ```
//! # let text = r#"
//! # name = "ring"
//! # [[nodes]]
//! # id = 0
//! # cpus = "0"
//! # [[nodes]]
//! # id = 1
//! # cpus = "1"
//! # [[nodes]]
//! # id = 2
//! # cpus = "2"
//! [[links]]
//! from = 0
//! to = 1
//! bytes_s = 6.0e9       # data from node 0 to node 1
//! back_bytes_s = 3.0e9  # data from node 1 to node 0; leave out where the link carries none
//! latency_ns = 40.0     # optional: what crossing it adds
//!
//! [[links]]
//! from = 1
//! to = 2
//! bytes_s = 6.0e9
//! back_bytes_s = 6.0e9
//!
//! [[routes]]            # optional: where data does not take the fewest and then the widest links
//! from = 0
//! to = 2
//! via = [1]
//! # "#;
//! # let machine = egeria_machine::Machine::from_toml(text, "ring.toml".as_ref())?;
//! # assert_eq!(machine.paths()?.unwrap().way(0, 2).len(), 2);
//! # Ok::<(), egeria_machine::MachineError>(())
//! ```
//!
//! Instead of `emulated` tables, nodes may have memories of their own, which are then emulated with their controllers,
//! links and caches; `cores` says how many virtual cores a node has, where not as many as `cpus`.
//!
//! What nodes have in memories may be said for the model ([`Memory`], [`Controller`], [`Cache`]):
//!
//! ```
//! # let text = r#"
//! # name = "one socket"
//! # [[nodes]]
//! # id = 0
//! # cpus = "0-15"
//! [nodes.cache]                 # the last-level cache of the node's cores
//! bytes = 22_000_000
//! latency_ns = 20.0
//! read_bytes_s = 20e9           # what one thread reads from it
//!
//! [[nodes.controllers]]         # optional
//! id = 0
//! queue_lines = 57              # cache lines that its queue holds
//!
//! [[nodes.memories]]
//! kind = "dram"                 # dram, persistent or expander (CXL)
//! controller = 0                # optional, 0
//! modules = 3                   # optional, 1: what follows is what all give together
//! read_bytes_s = 60e9
//! write_bytes_s = 40e9
//! read_stream_bytes_s = 12e9    # what one thread gets
//! write_stream_bytes_s = 8e9
//! read_latency_ns = 75.0
//! write_latency_ns = 75.0
//!
//! [[nodes.memories]]
//! kind = "persistent"
//! granularity_bytes = 256       # optional, 64
//! read_bytes_s = 6.8e9
//! write_bytes_s = 1.85e9
//! read_stream_bytes_s = 3.1e9
//! write_stream_bytes_s = 0.9e9
//! read_latency_ns = 305.0
//! write_latency_ns = 81.0
//! write_curve = [[4, 1.0], [14, 0.55]]   # optional
//! # "#;
//! # let machine = egeria_machine::Machine::from_toml(text, "one.toml".as_ref())?;
//! # assert_eq!(machine.nodes[0].hardware.memories.len(), 2);
//! # Ok::<(), egeria_machine::MachineError>(())
//! ```
//!
//! Emulated nodes may all leave `cpus` out: online CPU `i` then belongs to node `i mod nodes`.
//! A node may also have `socket` (a number: nodes of one socket are near each other), `free_bytes`, `[nodes.bandwidth]` and `[[nodes.persistent_regions]]`.
//! A real machine's `[nodes.bandwidth]` has `read_bytes_s`, `write_bytes_s`, `read_latency_ns`,
//! `write_latency_ns` and `initiators` (node numbers); a `[[nodes.persistent_regions]]` has
//! `name`, `kind` (`nvdimm`, `dax`, `cxl`), `bytes`, and perhaps `persistence_domain` and
//! `align_bytes`. Unknown keys are refused, so that a misspelt one cannot pass unnoticed.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::sources::input;
use crate::{
    AccessClass, Cache, Controller, EmulatedMachine, EmulatedNode, Hardware, Interconnect,
    LOCAL_DISTANCE, Link, Machine, MachineError, Memory, Node, NodeId, PersistentRegion,
    PoolBandwidth, Route, Source, check, format_cpu_list, parse_cpu_list,
};

/// Machine files are small; more is not one.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What the kernel says when firmware says nothing.
const REMOTE_DISTANCE: u32 = 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    distances: Option<Vec<Vec<u32>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    emulation: Option<EmulationTable>,
    #[serde(default)]
    nodes: Vec<NodeTable>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    links: Vec<Link>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EmulationTable {
    dilation: f64,
    timing: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeTable {
    id: NodeId,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpus: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cores: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket_queue_lines: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bandwidth: Option<AccessClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pool_bandwidth: Option<PoolBandwidth>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    persistent_regions: Vec<PersistentRegion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    emulated: Option<EmulatedNode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache: Option<Cache>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    controllers: Vec<Controller>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    memories: Vec<Memory>,
}

/// The text of a machine file.
pub(crate) fn read(path: &Path) -> Result<String, MachineError> {
    const HINT: &str = "give the path of a TOML machine file, or a profile's name";
    input::read_text(path, MAX_FILE_BYTES, HINT)
}

/// The machine a text describes; `origin` names it in errors.
pub(crate) fn parse(text: &str, origin: &Path) -> Result<Machine, MachineError> {
    let file: MachineFile =
        toml::from_str(text).map_err(|error| syntax_error(text, origin, &error))?;
    let value_error = |fault: check::values::Fault| fault.of(origin);
    let machine = assemble(file, origin).map_err(value_error)?;
    check::machine(&machine).map_err(value_error)?;
    Ok(machine)
}

fn assemble(file: MachineFile, origin: &Path) -> Result<Machine, check::values::Fault> {
    let count = file.nodes.len();
    // Before the default matrix is made, which is quadratic.
    check::node_count(count)?;
    let distances = file.distances.unwrap_or_else(|| default_distances(count));
    let emulation = file.emulation;
    let mut nodes = Vec::with_capacity(count);
    let mut declared = Vec::with_capacity(count);
    let mut cores = Vec::with_capacity(count);
    let by_tables = file.nodes.iter().any(|table| table.emulated.is_some());
    for (index, table) in file.nodes.into_iter().enumerate() {
        let given = table.cores;
        let (node, emulated) = assemble_node(index, table, (emulation.is_some(), by_tables))?;
        cores.push(given.unwrap_or(node.cpus.len() as u32));
        nodes.push(node);
        declared.extend(emulated);
    }
    let emulated = emulation.map(|table| EmulatedMachine {
        dilation: table.dilation,
        timing: table.timing,
        nodes: declared,
        cores: if by_tables { Vec::new() } else { cores },
    });
    Ok(Machine {
        name: file.name,
        source: Source::File(origin.into()),
        nodes,
        distances,
        interconnect: Interconnect {
            links: file.links,
            routes: file.routes,
        },
        emulated,
        warnings: Vec::new(),
    })
}

fn assemble_node(
    index: usize,
    table: NodeTable,
    (emulation, by_tables): (bool, bool),
) -> Result<(Node, Option<EmulatedNode>), check::values::Fault> {
    if table.cores.is_some() && (!emulation || by_tables) {
        return Err(check::values::fault(
            format!("nodes[{index}].cores"),
            "present although the node's own memories are not emulated",
            "remove it; cpus or [nodes.emulated] say how many there are",
        ));
    }
    match (emulation, &table.emulated) {
        (true, None) if by_tables => {
            return Err(check::values::fault(
                format!("nodes[{index}].emulated"),
                "missing although other nodes have it",
                "add [nodes.emulated] to every node, or to none and give all [[nodes.memories]]",
            ));
        }
        (false, Some(_)) => {
            return Err(check::values::fault(
                format!("nodes[{index}].emulated"),
                "present although the file has no [emulation]",
                "add [emulation] with dilation and timing, or remove it",
            ));
        }
        _ => {}
    }
    let cpus = parse_cpu_list(table.cpus.as_deref().unwrap_or_default()).map_err(|problem| {
        check::values::fault(
            format!("nodes[{index}].cpus"),
            problem,
            "write a list such as \"0-3,8\"",
        )
    })?;
    let node = Node {
        id: table.id,
        cpus,
        socket: table.socket,
        memory_bytes: table.memory_bytes.unwrap_or(0),
        free_bytes: table
            .free_bytes
            .or(table.memory_bytes.filter(|bytes| *bytes == 0)),
        persistent_regions: table.persistent_regions,
        bandwidth: table.bandwidth,
        pool_bandwidth: table.pool_bandwidth,
        hardware: Hardware {
            cache: table.cache,
            memories: table.memories,
            controllers: table.controllers,
            socket_queue_lines: table.socket_queue_lines,
        },
    };
    Ok((node, table.emulated))
}

/// 10 to itself, 20 to every other node.
pub(crate) fn default_distances(count: usize) -> Vec<Vec<u32>> {
    let distance = |from, to| {
        if from == to {
            LOCAL_DISTANCE
        } else {
            REMOTE_DISTANCE
        }
    };
    let row = |from| (0..count).map(|to| distance(from, to)).collect();
    (0..count).map(row).collect()
}

fn syntax_error(text: &str, origin: &Path, error: &toml::de::Error) -> MachineError {
    let start = error.span().map_or(0, |span| span.start).min(text.len());
    let line = text.as_bytes()[..start]
        .iter()
        .filter(|&&byte| byte == b'\n')
        .count()
        + 1;
    let shown = text.lines().nth(line - 1).unwrap_or_default().trim();
    let problem = format!("{} at {:?}", error.message(), shorten(shown, 60));
    MachineError::Syntax {
        origin: origin.to_owned(),
        line,
        problem: shorten(&problem.replace(['\n', '\r'], " "), 400),
    }
}

fn shorten(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let kept: String = text.chars().take(limit).collect();
    format!("{kept}…")
}

/// The machine as a machine file.
///
/// CPUs that emulated nodes share came from the host, not from a file, and are left out.
pub(crate) fn write(machine: &Machine) -> String {
    let shared = check::cpus_of_one_node_each(machine).is_err();
    let declared = machine.emulated.as_ref();
    let cores = |index: usize| declared?.cores.get(index).copied();
    let table = |(index, node): (usize, &Node)| NodeTable {
        id: node.id,
        cores: cores(index),
        cpus: (!shared && !node.cpus.is_empty()).then(|| format_cpu_list(&node.cpus)),
        socket: node.socket,
        memory_bytes: node.memory(),
        free_bytes: node.free_bytes,
        bandwidth: node.bandwidth.clone(),
        pool_bandwidth: node.pool_bandwidth.clone(),
        persistent_regions: node.persistent_regions.clone(),
        emulated: declared
            .and_then(|emulated| emulated.nodes.get(index))
            .cloned(),
        socket_queue_lines: node.hardware.socket_queue_lines,
        cache: node.hardware.cache.clone(),
        controllers: node.hardware.controllers.clone(),
        memories: node.hardware.memories.clone(),
    };
    let file = MachineFile {
        name: machine.name.clone(),
        distances: Some(machine.distances.clone()),
        emulation: declared.map(|emulated| EmulationTable {
            dilation: emulated.dilation,
            timing: emulated.timing,
        }),
        nodes: machine.nodes.iter().enumerate().map(table).collect(),
        links: machine.interconnect.links.clone(),
        routes: machine.interconnect.routes.clone(),
    };
    // Fails only for sizes above 2^63, which neither a file nor sysfs may hold (`check`).
    toml::to_string(&file).unwrap_or_else(|error| format!("# not a machine file: {error}\n"))
}
