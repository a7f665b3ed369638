//! How fast the memory is that holds a node's files, as far as the machine says.

use egeria_facts::Measured;
use egeria_machine::{Machine, Medium, Memory, MemoryKind, Node};

/// DRAM that moves less than this share of what persistent memory moves is idle: even where slow accesses hold it up to
/// the utmost it keeps more (PATS Fig. 1: a twentieth of what it can).
const IDLE_SHARE: f64 = 1e-3;

/// Traffic of DRAM next to a medium, bytes/s, if that is measured and in use.
pub(crate) fn dram_in_use(measured: &Measured) -> Option<f64> {
    let is_used = |dram_bytes_s: &f64| *dram_bytes_s > IDLE_SHARE * measured.pm_bytes_s;
    measured.dram_bytes_s.filter(is_used)
}

/// A medium that gives so much of what it can is not overcrowded.
const NEARLY_ALL: f64 = 0.95;

/// The medium of a node's files (by position): what it emulates, else its persistent memory, else (as where DRAM plays
/// persistent memory) the first of its memories.
pub(crate) fn medium(machine: &Machine, index: usize) -> Option<Medium<'_>> {
    let node = machine.nodes.get(index)?;
    match machine.emulated_node(node.id) {
        Some(emulated) => Some(emulated.medium()),
        None => memory(node).map(Memory::medium),
    }
}

/// The medium of a node, if it is persistent or emulated.
pub(crate) fn persistent(machine: &Machine, index: usize) -> Option<Medium<'_>> {
    let node = machine.nodes.get(index)?;
    let is_persistent = |memory: &&Memory| memory.kind == MemoryKind::Persistent;
    match machine.emulated_node(node.id) {
        Some(emulated) => Some(emulated.medium()),
        None => memory(node).filter(is_persistent).map(Memory::medium),
    }
}

/// DIMMs of the medium that share its load.
pub(crate) fn modules(machine: &Machine, index: usize) -> Option<u32> {
    let node = machine.nodes.get(index)?;
    let modules = match machine.emulated_node(node.id) {
        Some(emulated) => emulated.dimms,
        None => memory(node)?.modules,
    };
    Some(modules.clamp(1, 64))
}

/// How many threads at once a node's medium bears: the most with which it still gives nearly all it has, by its curves;
/// `None` where nothing is said of many threads.
pub(crate) fn bears(machine: &Machine, index: usize, write_share: f64) -> Option<u32> {
    let medium = medium(machine, index)?;
    let of = |curve: &[(u32, f64)]| {
        let most = curve.iter().map(|point| point.1).fold(0.0, f64::max);
        let good = curve
            .iter()
            .rev()
            .find(|point| point.1 >= NEARLY_ALL * most);
        good.map(|point| point.0)
    };
    // What writes bear counts where there are some: they suffer first.
    if write_share > 0.0 {
        of(medium.write.curve).or_else(|| of(medium.read.curve))
    } else {
        of(medium.read.curve)
    }
}

fn memory(node: &Node) -> Option<&Memory> {
    let memories = &node.hardware.memories;
    let persistent = memories
        .iter()
        .find(|memory| memory.kind == MemoryKind::Persistent);
    persistent.or_else(|| memories.first())
}
