//! Which node an address of the machine's memory is on: the kernel lists the blocks of each node.

use std::collections::HashMap;
use std::path::Path;

use egeria_machine::NodeId;

/// Blocks of memory by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PhysicalNodes {
    block_bytes: u64,
    nodes: HashMap<u64, Option<NodeId>>,
}

impl PhysicalNodes {
    /// From the files below `root`; `None` where the kernel does not list blocks.
    pub(super) fn read(root: &Path) -> Option<PhysicalNodes> {
        let system = root.join("sys/devices/system");
        let size = std::fs::read_to_string(system.join("memory/block_size_bytes")).ok()?;
        let block_bytes = u64::from_str_radix(size.trim(), 16).ok()?;
        let mut nodes = HashMap::new();
        for entry in std::fs::read_dir(system.join("node")).ok()?.flatten() {
            let Some(node) = number(&entry.file_name(), "node") else {
                continue;
            };
            let node = u16::try_from(node).ok().map(NodeId);
            for block in std::fs::read_dir(entry.path()).ok()?.flatten() {
                if let Some(block) = number(&block.file_name(), "memory") {
                    // A block of two nodes does not tell.
                    nodes
                        .entry(block)
                        .and_modify(|known| *known = None)
                        .or_insert(node);
                }
            }
        }
        (block_bytes > 0).then_some(PhysicalNodes { block_bytes, nodes })
    }

    pub(super) fn node_of(&self, address: u64) -> Option<NodeId> {
        *self.nodes.get(&(address / self.block_bytes))?
    }
}

fn number(name: &std::ffi::OsStr, before: &str) -> Option<u64> {
    name.to_str()?.strip_prefix(before)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_of_the_node_that_lists_them() {
        let root = tempfile::tempdir_in("/dev/shm").unwrap();
        let system = root.path().join("sys/devices/system");
        for block in [
            "node0/memory0",
            "node0/memory1",
            "node1/memory1",
            "node1/memory40",
            "node1/memoryx",
        ] {
            std::fs::create_dir_all(system.join("node").join(block)).unwrap();
        }
        std::fs::create_dir_all(system.join("memory")).unwrap();
        assert_eq!(PhysicalNodes::read(root.path()), None);
        let size = system.join("memory/block_size_bytes");
        for (text, is_size) in [("8000000\n", true), ("0\n", false), ("many\n", false)] {
            std::fs::write(&size, text).unwrap();
            assert_eq!(PhysicalNodes::read(root.path()).is_some(), is_size);
        }
        std::fs::write(&size, "8000000\n").unwrap();
        let blocks = PhysicalNodes::read(root.path()).unwrap();
        let of = |address| blocks.node_of(address).map(|node| node.0);
        assert_eq!(
            (of(1), of(0x0fff_ffff), of(40 << 27)),
            (Some(0), None, Some(1))
        );
        assert_eq!((of(41 << 27), of(u64::MAX)), (None, None));
    }
}
