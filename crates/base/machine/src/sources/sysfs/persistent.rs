//! Persistent and device-DAX memory: the nd, dax and cxl buses.

use std::path::{Path, PathBuf};

use super::tree::{Tree, entries};
use crate::{Node, NodeId, PersistentRegion, RegionKind};

/// More devices than this on one bus are not listed.
const MAX_DEVICES: usize = 256;

/// Gives every node the regions that belong to it.
pub(super) fn attach(tree: &mut Tree<'_>, nodes: &mut [Node]) {
    nvdimms(tree, nodes);
    dax_devices(tree, nodes);
    cxl_devices(tree, nodes);
}

fn nvdimms(tree: &mut Tree<'_>, nodes: &mut [Node]) {
    let bus = tree.path("sys/bus/nd/devices");
    for (_, name) in tree.numbered(&bus, "region").into_iter().take(MAX_DEVICES) {
        let device = bus.join(&name);
        let Some(bytes) = some_bytes(tree, &device.join("size")) else {
            continue;
        };
        let persistence_domain = persistence_domain(tree, &device.join("persistence_domain"));
        let kind = RegionKind::Nvdimm;
        let region = PersistentRegion {
            name,
            kind,
            bytes,
            persistence_domain,
            align_bytes: None,
        };
        give(tree, nodes, &device, &["numa_node"], region);
    }
}

fn dax_devices(tree: &mut Tree<'_>, nodes: &mut [Node]) {
    let bus = tree.path("sys/bus/dax/devices");
    let is_plain = |name: &String| {
        name.len() <= 32
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
    };
    for name in entries(&bus).into_iter().filter(is_plain).take(MAX_DEVICES) {
        let device = bus.join(&name);
        // Under this driver it is ordinary memory of a node already.
        if driver_of(&device).is_some_and(|driver| driver.ends_with("kmem")) {
            continue;
        }
        let Some(bytes) = some_bytes(tree, &device.join("size")) else {
            continue;
        };
        let align_bytes = tree.extra_bytes(&device.join("align"));
        let kind = RegionKind::Dax;
        let region = PersistentRegion {
            name,
            kind,
            bytes,
            persistence_domain: None,
            align_bytes,
        };
        // The memory's own node may have no CPUs and be offline; then the nearest online one.
        give(tree, nodes, &device, &["target_node", "numa_node"], region);
    }
}

fn cxl_devices(tree: &mut Tree<'_>, nodes: &mut [Node]) {
    let bus = tree.path("sys/bus/cxl/devices");
    for (_, name) in tree.numbered(&bus, "mem").into_iter().take(MAX_DEVICES) {
        let device = bus.join(&name);
        let Some(bytes) = some_bytes(tree, &device.join("pmem/size")) else {
            continue;
        };
        let kind = RegionKind::Cxl;
        let region = PersistentRegion {
            name,
            kind,
            bytes,
            persistence_domain: None,
            align_bytes: None,
        };
        give(tree, nodes, &device, &["numa_node"], region);
    }
}

/// A size above zero.
fn some_bytes(tree: &mut Tree<'_>, path: &Path) -> Option<u64> {
    tree.extra_bytes(path).filter(|&bytes| bytes > 0)
}

fn driver_of(device: &Path) -> Option<PathBuf> {
    std::fs::read_link(device.join("driver")).ok()
}

fn persistence_domain(tree: &mut Tree<'_>, path: &Path) -> Option<String> {
    let text = tree.extra_text(path).filter(|text| !text.is_empty())?;
    let is_word = text.len() <= 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if !is_word {
        tree.warn(path, "not a persistence domain; it is ignored");
    }
    is_word.then_some(text)
}

/// Puts a region into the first of the nodes its files name that the machine has.
fn give(
    tree: &mut Tree<'_>,
    nodes: &mut [Node],
    device: &Path,
    files: &[&str],
    region: PersistentRegion,
) {
    let numbers: Vec<i64> = files
        .iter()
        .filter_map(|name| tree.extra_number(&device.join(name)))
        .collect();
    let position = |&number: &i64| {
        let id = NodeId(u16::try_from(number).ok()?);
        nodes.iter().position(|node| node.id == id)
    };
    let index = match numbers.iter().find_map(position) {
        Some(index) => index,
        // The kernel writes -1 when firmware names no node.
        None if numbers.iter().all(|&number| number == -1) => {
            let first = nodes[0].id.0;
            tree.warn(
                device,
                format_args!("names no node; it is taken as node {first}'s"),
            );
            0
        }
        None => {
            tree.warn(device, "its node is not online; it is left out");
            return;
        }
    };
    nodes[index].persistent_regions.push(region);
}
