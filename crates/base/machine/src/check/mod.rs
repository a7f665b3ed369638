//! What no machine may say, wherever its description came from.

mod hardware;
pub(crate) mod values;

pub(crate) use hardware::pool;

use values::{
    Fault, MAX_DIMMS, MAX_REMOTE_FACTOR, bandwidth, count, curve, fault, latency, name, number,
    share, size,
};

use crate::types::emulated::{LLC_GRAIN_BYTES, MAX_CORES, MAX_DILATION, MAX_LLC_BYTES};
use crate::{
    AccessClass, EmulatedMachine, EmulatedNode, Interconnect, LOCAL_DISTANCE, MAX_NODES, Machine,
    MemoryKind, Node, PersistentRegion, links,
};

const MAX_REGIONS: usize = 256;

/// Everything below, on a whole machine.
pub(crate) fn machine(machine: &Machine) -> Result<(), Fault> {
    name("name", &machine.name)?;
    node_count(machine.nodes.len())?;
    ids_ascend(machine)?;
    for (index, each) in machine.nodes.iter().enumerate() {
        node(&format!("nodes[{index}]"), each)?;
    }
    cpus_of_one_node_each(machine)?;
    cpus_are_somewhere(machine)?;
    distances(machine.nodes.len(), &machine.distances)?;
    interconnect(machine)?;
    one_word_for_emulated_media(machine)?;
    emulation(machine)
}

pub(crate) fn node_count(count: usize) -> Result<(), Fault> {
    match count {
        0 => Err(fault(
            "nodes",
            "there are none",
            "add at least one [[nodes]] table",
        )),
        1..=MAX_NODES => Ok(()),
        _ => Err(fault(
            "nodes",
            format!("{count} nodes"),
            format!("have at most {MAX_NODES}"),
        )),
    }
}

fn ids_ascend(machine: &Machine) -> Result<(), Fault> {
    for (index, pair) in machine.nodes.windows(2).enumerate() {
        let (before, id) = (pair[0].id.0, pair[1].id.0);
        let key = format!("nodes[{}].id", index + 1);
        if id == before {
            return Err(fault(
                key,
                format!("{id} is used twice"),
                "give every node its own id",
            ));
        }
        if id < before {
            let problem = format!("{id} follows {before}");
            return Err(fault(key, problem, "list the nodes by ascending id"));
        }
    }
    Ok(())
}

fn node(key: &str, node: &Node) -> Result<(), Fault> {
    size(format!("{key}.memory_bytes"), node.memory_bytes)?;
    if let Some(free_bytes) = node.free_bytes {
        size(format!("{key}.free_bytes"), free_bytes)?;
    }
    if node.persistent_regions.len() > MAX_REGIONS {
        let problem = format!("{} regions", node.persistent_regions.len());
        let hint = format!("have at most {MAX_REGIONS}");
        return Err(fault(format!("{key}.persistent_regions"), problem, hint));
    }
    for (index, each) in node.persistent_regions.iter().enumerate() {
        region(&format!("{key}.persistent_regions[{index}]"), each)?;
    }
    if let Some(class) = &node.bandwidth {
        access_class(&format!("{key}.bandwidth"), class)?;
    }
    if let Some(measured) = &node.pool_bandwidth {
        pool(&format!("{key}.pool_bandwidth"), measured)?;
    }
    hardware::hardware(key, &node.hardware)
}

fn region(key: &str, region: &PersistentRegion) -> Result<(), Fault> {
    name(&format!("{key}.name"), &region.name)?;
    size(format!("{key}.bytes"), region.bytes)?;
    if let Some(domain) = &region.persistence_domain {
        name(&format!("{key}.persistence_domain"), domain)?;
    }
    size(
        format!("{key}.align_bytes"),
        region.align_bytes.unwrap_or_default(),
    )
}

/// Also what decides whether firmware's figures are used.
pub(crate) fn access_class(key: &str, class: &AccessClass) -> Result<(), Fault> {
    bandwidth(format!("{key}.read_bytes_s"), class.read_bytes_s)?;
    bandwidth(format!("{key}.write_bytes_s"), class.write_bytes_s)?;
    latency(format!("{key}.read_latency_ns"), class.read_latency_ns)?;
    latency(format!("{key}.write_latency_ns"), class.write_latency_ns)?;
    if class.initiators.len() > MAX_NODES {
        let hint = format!("name at most {MAX_NODES} nodes");
        return Err(fault(format!("{key}.initiators"), "too many", hint));
    }
    Ok(())
}

/// That no CPU is in two nodes.
pub(crate) fn cpus_of_one_node_each(machine: &Machine) -> Result<(), Fault> {
    let mut owner = std::collections::HashMap::new();
    for (index, node) in machine.nodes.iter().enumerate() {
        for cpu in &node.cpus {
            if let Some(other) = owner.insert(cpu, node.id.0) {
                let problem = format!("CPU {} is also in node {other}", cpu.0);
                let hint = "list every CPU in one node only";
                return Err(fault(format!("nodes[{index}].cpus"), problem, hint));
            }
        }
    }
    Ok(())
}

/// A real machine has a CPU; emulated nodes name theirs all, or none does.
fn cpus_are_somewhere(machine: &Machine) -> Result<(), Fault> {
    let without = machine.nodes.iter().position(|node| node.cpus.is_empty());
    let all_without = machine.nodes.iter().all(|node| node.cpus.is_empty());
    match (&machine.emulated, without) {
        (None, _) if all_without => {
            let hint = "give at least one node cpus, such as \"0-3\"";
            Err(fault("nodes", "no node has a CPU", hint))
        }
        (Some(emulated), Some(index)) if !all_without && emulated.cores.get(index) != Some(&0) => {
            let key = format!("nodes[{index}].cpus");
            let hint = "name CPUs for every emulated node, or for none";
            Err(fault(key, "missing although other nodes name theirs", hint))
        }
        _ => Ok(()),
    }
}

/// Square, 10 on the diagonal, 10 to 255 elsewhere: what the kernel accepts from firmware.
pub(crate) fn distances(count: usize, matrix: &[Vec<u32>]) -> Result<(), Fault> {
    let square = format!("write {count} rows of {count} numbers");
    if matrix.len() != count {
        let problem = format!("{} rows for {count} nodes", matrix.len());
        return Err(fault("distances", problem, square));
    }
    for (from, row) in matrix.iter().enumerate() {
        if row.len() != count {
            let problem = format!("{} numbers for {count} nodes", row.len());
            return Err(fault(format!("distances[{from}]"), problem, square));
        }
        for (to, &distance) in row.iter().enumerate() {
            let key = || format!("distances[{from}][{to}]");
            if from == to && distance != LOCAL_DISTANCE {
                let problem = format!("{distance} from a node to itself");
                return Err(fault(key(), problem, format!("write {LOCAL_DISTANCE}")));
            }
            if !(LOCAL_DISTANCE..=255).contains(&distance) {
                let problem = format!("{distance} is no distance");
                return Err(fault(
                    key(),
                    problem,
                    format!("write {LOCAL_DISTANCE} to 255"),
                ));
            }
        }
    }
    Ok(())
}

/// What an emulated node declares of its medium and cache stands in one place.
fn one_word_for_emulated_media(machine: &Machine) -> Result<(), Fault> {
    let by_tables = |emulated: &EmulatedMachine| !emulated.nodes.is_empty();
    if !machine.emulated.as_ref().is_some_and(by_tables) {
        return Ok(());
    }
    for (index, node) in machine.nodes.iter().enumerate() {
        let key = format!("nodes[{index}]");
        let hint = "an emulated node's medium and cache are in its [nodes.emulated] table";
        let memories = node.hardware.memories.iter();
        let kinds = memories.map(|memory| memory.kind);
        if let Some(at) = kinds
            .clone()
            .position(|kind| kind == MemoryKind::Persistent)
        {
            let key = format!("{key}.memories[{at}].kind");
            return Err(fault(key, "a second persistent memory", hint));
        }
        if node.hardware.cache.is_some() {
            return Err(fault(format!("{key}.cache"), "a second cache", hint));
        }
    }
    Ok(())
}

fn interconnect(machine: &Machine) -> Result<(), Fault> {
    let Interconnect { links, routes } = &machine.interconnect;
    let most = MAX_NODES * (MAX_NODES - 1);
    for (key, count) in [("links", links.len()), ("routes", routes.len())] {
        if count > most {
            let problem = format!("{count} of them");
            return Err(fault(key, problem, format!("have at most {most}")));
        }
    }
    links::find_paths(machine).map(drop)
}

fn emulation(machine: &Machine) -> Result<(), Fault> {
    let Some(emulated) = &machine.emulated else {
        return Ok(());
    };
    let range = format!("a number from 1 to {MAX_DILATION}");
    number(
        "emulation.dilation".into(),
        emulated.dilation,
        1.0..=MAX_DILATION,
        &range,
    )?;
    for (index, node) in emulated.nodes.iter().enumerate() {
        emulated_node(&format!("nodes[{index}].emulated"), node)?;
    }
    if emulated.nodes.is_empty() {
        own_memories(machine, &emulated.cores)
    } else {
        Ok(())
    }
}

/// What nodes without `emulated` tables must have to be emulated.
fn own_memories(machine: &Machine, cores: &[u32]) -> Result<(), Fault> {
    for (index, cores) in cores.iter().enumerate() {
        if *cores > MAX_CORES {
            let hint = format!("use at most {MAX_CORES}");
            return Err(fault(
                format!("nodes[{index}].cores"),
                format!("{cores}"),
                hint,
            ));
        }
    }
    if cores.iter().all(|cores| *cores == 0) {
        return Err(fault(
            "nodes",
            "no node has a core",
            "give one cores or cpus",
        ));
    }
    let nodes = machine.nodes.iter().enumerate();
    let mut bare = nodes.filter(|(_, node)| node.hardware.memories.is_empty());
    match bare.next() {
        None => Ok(()),
        Some((index, _)) => Err(fault(
            format!("nodes[{index}].memories"),
            "missing, and nothing can be emulated of memory that is not described",
            "add [[nodes.memories]] or [nodes.emulated], or take a profile such as optane-1s or odin-8s",
        )),
    }
}

fn emulated_node(key: &str, node: &EmulatedNode) -> Result<(), Fault> {
    let at = |name: &str| format!("{key}.{name}");
    count(at("cores"), node.cores, MAX_CORES)?;
    count(at("dimms"), node.dimms, MAX_DIMMS)?;
    bandwidth(at("read_bytes_s"), node.read_bytes_s)?;
    bandwidth(at("write_bytes_s"), node.write_bytes_s)?;
    bandwidth(at("read_stream_bytes_s"), node.read_stream_bytes_s)?;
    bandwidth(at("write_stream_bytes_s"), node.write_stream_bytes_s)?;
    latency(at("read_latency_ns"), node.read_latency_ns)?;
    latency(at("write_latency_ns"), node.write_latency_ns)?;
    let range = format!("a number from 1 to {MAX_REMOTE_FACTOR}");
    let remote = node.remote_latency_factor;
    number(
        at("remote_latency_factor"),
        remote,
        1.0..=MAX_REMOTE_FACTOR,
        &range,
    )?;
    share(
        at("remote_read_bandwidth_factor"),
        node.remote_read_bandwidth_factor,
    )?;
    share(
        at("remote_write_bandwidth_factor"),
        node.remote_write_bandwidth_factor,
    )?;
    curve(&at("read_curve"), &node.read_curve)?;
    curve(&at("write_curve"), &node.write_curve)?;
    last_level_cache(&at, node)
}

/// All of it or nothing.
fn last_level_cache(at: &dyn Fn(&str) -> String, node: &EmulatedNode) -> Result<(), Fault> {
    if !node.has_llc() {
        let stray = node.llc_latency_ns != 0.0 || node.llc_read_bytes_s != 0.0;
        let hint = "give llc_bytes too, or leave all three out";
        return if stray {
            Err(fault(
                at("llc_bytes"),
                "missing beside other llc keys",
                hint,
            ))
        } else {
            Ok(())
        };
    }
    let bytes = node.llc_bytes;
    if bytes > MAX_LLC_BYTES || !bytes.is_multiple_of(LLC_GRAIN_BYTES) {
        let hint = format!("use a multiple of {LLC_GRAIN_BYTES}, at most {MAX_LLC_BYTES}");
        return Err(fault(at("llc_bytes"), format!("{bytes} bytes"), hint));
    }
    latency(at("llc_latency_ns"), node.llc_latency_ns)?;
    bandwidth(at("llc_read_bytes_s"), node.llc_read_bytes_s)
}
