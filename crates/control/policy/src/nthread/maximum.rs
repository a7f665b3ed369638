//! How much a node's persistent memory can do.

use egeria_facts::Window;
use egeria_machine::{Machine, Node, RegionKind};

use super::settings::Settings;
use crate::media;

/// Whether new data can be written on the node.
pub(super) fn has_pool(window: &Window, index: usize) -> bool {
    window.nodes.get(index).is_none_or(|facts| facts.has_pool)
}

/// The most that `BW_N` (NThread Eq. 1) can be, bytes/s: the larger of weighted reads and
/// writes per DIMM, times the DIMMs (NThread §III-C1; which of the two is ours: the paper's
/// footnote gives both). For one Optane DIMM max(6.8/3, 1.85) = 2.27 GB/s.
pub(super) fn pm_maximum_bytes_s(
    machine: &Machine,
    index: usize,
    settings: &Settings,
) -> Option<f64> {
    machine.nodes.get(index)?;
    let (read_bytes_s, write_bytes_s) = declared(machine, index).unzip();
    let dimms = dimms(machine, index, settings);
    let read_bytes_s = settings
        .dimm_read_bytes_s
        .map(|one| one * dimms)
        .or(read_bytes_s);
    let write_bytes_s = settings
        .dimm_write_bytes_s
        .map(|one| one * dimms)
        .or(write_bytes_s);
    let weighted = read_bytes_s.map(|bytes_s| bytes_s * settings.read_weight);
    match (weighted, write_bytes_s) {
        (Some(read), Some(write)) => Some(read.max(write)),
        (read, write) => read.or(write),
    }
}

/// Read and write bandwidth of the whole node, bytes/s: from emulation, from the machine file's memory or a
/// measurement of its pool, or from firmware. On a node with NVDIMMs firmware describes the DRAM next to them.
fn declared(machine: &Machine, index: usize) -> Option<(f64, f64)> {
    let node = &machine.nodes[index];
    let of_medium =
        |medium: egeria_machine::Medium<'_>| (medium.read.bytes_s, medium.write.bytes_s);
    let own = machine.bounded_medium(index).map(of_medium);
    let class = node.bandwidth.as_ref().filter(|_| nvdimms(node) == 0);
    let firmware = class.map(|class| (class.read_bytes_s, class.write_bytes_s));
    let any = || machine.file_medium(index).filter(|_| nvdimms(node) == 0);
    own.or(firmware).or_else(|| any().map(of_medium))
}

fn dimms(machine: &Machine, index: usize, settings: &Settings) -> f64 {
    let dimms = settings.dimms.or_else(|| media::modules(machine, index));
    f64::from(
        dimms
            .unwrap_or_else(|| nvdimms(&machine.nodes[index]))
            .max(1),
    )
}

fn nvdimms(node: &Node) -> u32 {
    let regions = node.persistent_regions.iter();
    let nvdimms = regions.filter(|region| region.kind == RegionKind::Nvdimm);
    nvdimms.count().try_into().unwrap_or(u32::MAX)
}
