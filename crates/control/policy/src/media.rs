//! How fast the memory is that holds a node's files, as far as the machine says.

use egeria_facts::{Facts, MAX_COUNTER, Measured};
use egeria_machine::{AccessKind, Machine, Medium, Memory, MemoryKind, NEARLY_ALL, Node};

/// DRAM that moves less than this share of what persistent memory moves is idle: even where slow accesses hold it up to
/// the utmost it keeps more (PATS Fig. 1: a twentieth of what it can).
const IDLE_SHARE: f64 = 1e-3;

/// Traffic of DRAM next to a medium, bytes/s, if that is measured and in use.
pub(crate) fn dram_in_use(measured: &Measured) -> Option<f64> {
    let is_used = |dram_bytes_s: &f64| *dram_bytes_s > IDLE_SHARE * measured.pm_bytes_s;
    measured.dram_bytes_s.filter(is_used)
}

/// DIMMs of the medium that share its load.
pub(crate) fn modules(machine: &Machine, index: usize) -> Option<u32> {
    let node = machine.nodes.get(index)?;
    let modules = match machine.emulated_node(node.id) {
        Some(emulated) => emulated.dimms,
        None => node.file_memory()?.modules,
    };
    Some(modules.clamp(1, 64))
}

/// How many threads at once a node's medium bears: the most with which it still gives nearly all it has, by its curves;
/// `None` where nothing is said of many threads.
pub(crate) fn bears(machine: &Machine, index: usize, write_share: f64) -> Option<u32> {
    let medium = machine.file_medium(index)?;
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

/// What this number of threads gets of a medium at most; `None` if its curve is not known.
pub(crate) fn gives_bytes_s(medium: &Medium<'_>, write_share: f64, threads: u32) -> Option<f64> {
    if threads == 0 || (medium.read.curve.is_empty() && medium.write.curve.is_empty()) {
        return None;
    }
    let of = |kind: AccessKind| {
        let alone_bytes_s = medium.side(kind).stream_bytes_s * f64::from(threads);
        medium
            .capacity_bytes_s(kind, false, threads)
            .min(alone_bytes_s)
    };
    let per_byte = (1.0 - write_share) / of(AccessKind::Read) + write_share / of(AccessKind::Write);
    Some(1.0 / per_byte).filter(|bytes_s| bytes_s.is_finite() && *bytes_s > 0.0)
}

/// The volatile memory of a node that programs use, as declared.
pub(crate) fn of_programs(machine: &Machine, index: usize) -> Option<(MemoryKind, Medium<'_>)> {
    let node = machine.nodes.get(index)?;
    let mut memories = node.hardware.memories.iter();
    let memory = memories.find(|memory| memory.kind != MemoryKind::Persistent)?;
    Some((memory.kind, Memory::medium(memory)))
}

/// The kind of memory that a node's pool lies on.
fn kind_of_pool(machine: &Machine, node: &Node) -> MemoryKind {
    if machine.has_persistent_memory(node) {
        MemoryKind::Persistent
    } else if node.cpus.is_empty() {
        MemoryKind::Expander
    } else {
        MemoryKind::Dram
    }
}

/// Counts what all programs moved in the memories of pools, where hardware counted more than the threads that are seen.
pub(crate) fn count_all_programs(machine: &Machine, facts: &mut Facts) {
    let seconds = facts.window.seconds();
    let bytes = |rate: f64| ((rate * seconds) as u64).min(MAX_COUNTER);
    for (node, counted) in machine.nodes.iter().zip(&mut facts.window.nodes) {
        let kind = kind_of_pool(machine, node);
        let mut memories = facts.memories.iter();
        let traffic = memories.find(|each| each.node == node.id && each.kind == kind);
        if let Some(traffic) = traffic.filter(|_| counted.has_pool) {
            counted.read_bytes = counted.read_bytes.max(bytes(traffic.read_bytes_s));
            counted.written_bytes = counted.written_bytes.max(bytes(traffic.written_bytes_s));
        }
    }
}
