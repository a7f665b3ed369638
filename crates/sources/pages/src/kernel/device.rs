//! The nodes that a block device is attached to.

use std::path::{Path, PathBuf};

use egeria_machine::NodeId;

/// Devices that one device may stand on, over all levels (mapped and striped devices).
const MAX_DEVICES: usize = 64;

/// The nodes of a device and of those it stands on, ascending; none when the kernel does not know.
pub fn nodes_of(device: u64) -> Vec<NodeId> {
    nodes_below(Path::new("/sys"), device)
}

fn nodes_below(sys: &Path, device: u64) -> Vec<NodeId> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let mut devices = vec![sys.join(format!("dev/block/{major}:{minor}"))];
    let mut nodes = Vec::new();
    let mut seen = 0;
    while let Some(device) = devices.pop() {
        seen += 1;
        let Ok(device) = device.canonicalize() else {
            continue;
        };
        let slaves = std::fs::read_dir(device.join("slaves"));
        let slaves = slaves.into_iter().flatten().flatten();
        let below: Vec<PathBuf> = slaves.map(|entry| entry.path()).collect();
        if below.is_empty() {
            nodes.extend(node_of(sys, &device));
        } else if seen < MAX_DEVICES {
            devices.extend(below.into_iter().take(MAX_DEVICES));
        }
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The nearest `numa_node` above a device; the kernel writes -1 where it knows none.
fn node_of(sys: &Path, device: &Path) -> Option<NodeId> {
    let sys = sys.canonicalize().ok()?;
    let above = device
        .ancestors()
        .take_while(|place| place.starts_with(&sys));
    let numbers = above.filter_map(|place| std::fs::read_to_string(place.join("numa_node")).ok());
    let mut numbers = numbers.filter_map(|text| text.trim().parse::<u16>().ok());
    numbers.next().map(NodeId)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn nodes_come_from_the_devices_below() {
        let sys = tempfile::tempdir().unwrap();
        let root = sys.path();
        for (disk, node) in [
            ("pci0/nvme0/nvme0n1", "1\n"),
            ("pci1/nvme1/nvme1n1", "-1\n"),
            ("pci2/pmem2", "3"),
        ] {
            fs::create_dir_all(root.join("devices").join(disk)).unwrap();
            let parent = Path::new(disk).parent().unwrap();
            fs::write(root.join("devices").join(parent).join("numa_node"), node).unwrap();
        }
        let mapped = root.join("devices/virtual/block/dm-0");
        fs::create_dir_all(mapped.join("slaves")).unwrap();
        fs::create_dir_all(root.join("dev/block")).unwrap();
        for (slave, disk) in [("a", "pci0/nvme0/nvme0n1"), ("b", "pci2/pmem2")] {
            symlink(
                root.join("devices").join(disk),
                mapped.join("slaves").join(slave),
            )
            .unwrap();
        }
        symlink(
            "../../devices/pci0/nvme0/nvme0n1",
            root.join("dev/block/259:1"),
        )
        .unwrap();
        symlink(
            "../../devices/pci1/nvme1/nvme1n1",
            root.join("dev/block/259:2"),
        )
        .unwrap();
        symlink(
            "../../devices/virtual/block/dm-0",
            root.join("dev/block/253:0"),
        )
        .unwrap();
        let nodes = |major, minor| nodes_below(root, libc::makedev(major, minor));
        assert_eq!(nodes(259, 1), [NodeId(1)]);
        assert_eq!(nodes(259, 2), []);
        assert_eq!(nodes(253, 0), [NodeId(1), NodeId(3)]);
        assert_eq!(nodes(7, 7), []);
        // A device that stands on itself ends.
        symlink(&mapped, mapped.join("slaves/c")).unwrap();
        assert_eq!(nodes(253, 0), [NodeId(1), NodeId(3)]);
    }
}
