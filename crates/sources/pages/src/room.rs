//! How much of a node's memory more pages of files, or of programs, can have.

use std::fs;
use std::path::Path;

use egeria_machine::{Machine, NodeId};

/// What is free, and what the page cache has and can be dropped, bytes; `None` when the kernel does not say.
pub fn of(node: NodeId) -> Option<u64> {
    below(Path::new("/"), node)
}

/// What programs could have of each node, in the machine's order, bytes: as `MemAvailable` has it for all nodes
/// together. Empty where the kernel does not say it of one, as in a container without `/sys`.
pub fn for_programs(machine: &Machine) -> Vec<u64> {
    for_programs_below(Path::new("/"), machine)
}

fn for_programs_below(root: &Path, machine: &Machine) -> Vec<u64> {
    let zones = fs::read_to_string(root.join("proc/zoneinfo")).unwrap_or_default();
    let nodes = machine.nodes.iter();
    let room = nodes.map(|node| {
        let meminfo = Meminfo::read(root, node.id)?;
        Some(meminfo.available(low_watermark(&zones, node.id)))
    });
    room.collect::<Option<Vec<u64>>>().unwrap_or_default()
}

fn below(root: &Path, node: NodeId) -> Option<u64> {
    let meminfo = Meminfo::read(root, node)?;
    let bytes = |key| meminfo.bytes(key);
    let dirty = bytes("Dirty:").unwrap_or(0);
    let files = bytes("Active(file):")?.checked_add(bytes("Inactive(file):")?)?;
    // The kernel keeps some of what is free for itself.
    let kept = bytes("MemTotal:")? / 50;
    let free = bytes("MemFree:")?.checked_add(files)?;
    Some(free.saturating_sub(dirty).saturating_sub(kept))
}

/// The memory of a node, as the kernel counts it.
struct Meminfo(String);

impl Meminfo {
    fn read(root: &Path, node: NodeId) -> Option<Meminfo> {
        let path = format!("sys/devices/system/node/node{}/meminfo", node.0);
        let text = fs::read_to_string(root.join(path)).ok()?;
        let meminfo = Meminfo(text);
        meminfo.bytes("MemFree:").map(|_| meminfo)
    }

    fn bytes(&self, key: &str) -> Option<u64> {
        let mut words = self.0.split_whitespace().skip_while(|word| *word != key);
        words.nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
    }

    /// As `si_mem_available` in mm/show_mem.c: of the page cache in use and of slabs, half is not taken to be had, but at
    /// most the low watermark.
    fn available(&self, low_bytes: u64) -> u64 {
        let bytes = |key| self.bytes(key).unwrap_or(0);
        let cached = bytes("Active(file):").saturating_add(bytes("Inactive(file):"));
        let of = |bytes: u64| bytes - (bytes / 2).min(low_bytes);
        let free = bytes("MemFree:").saturating_sub(low_bytes);
        free.saturating_add(of(cached))
            .saturating_add(of(bytes("SReclaimable:")))
    }
}

/// What the kernel keeps free of a node, bytes: the low watermarks of its zones in `/proc/zoneinfo`.
fn low_watermark(zones: &str, node: NodeId) -> u64 {
    let (mut is_here, mut pages) = (false, 0_u64);
    for line in zones.lines() {
        let mut words = line.split_ascii_whitespace();
        match (
            words.next(),
            words
                .next()
                .and_then(|word| word.trim_end_matches(',').parse().ok()),
        ) {
            (Some("Node"), number) => is_here = number == Some(u64::from(node.0)),
            (Some("low"), Some(low)) if is_here => pages = pages.saturating_add(low),
            _ => {}
        }
    }
    pages.saturating_mul(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_and_clean_cache_are_room() {
        let root = tempfile::tempdir().unwrap();
        let node = root.path().join("sys/devices/system/node/node1");
        fs::create_dir_all(&node).unwrap();
        let text = "Node 1 MemTotal: 1000 kB\nNode 1 MemFree:  100 kB\nNode 1 Active(file): 30 kB\n\
            Node 1 Inactive(file): 70 kB\nNode 1 Dirty: 10 kB\n";
        fs::write(node.join("meminfo"), text).unwrap();
        assert_eq!(below(root.path(), NodeId(1)), Some(170 << 10));
        assert_eq!(below(root.path(), NodeId(0)), None);
        fs::write(
            node.join("meminfo"),
            "Node 1 MemFree: 99999999999999999999 kB",
        )
        .unwrap();
        assert_eq!(below(root.path(), NodeId(1)), None);
    }

    #[test]
    fn programs_can_have_free_memory_above_the_watermark() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine::profile("optane-2s").unwrap();
        let zones = "Node 0, zone      DMA\n  pages free     3\n        low      1\nNode 0, zone   Normal\n        \
            low      9\nNode 1, zone   Normal\n        low      100\n";
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("proc/zoneinfo"), zones).unwrap();
        for node in &machine.nodes {
            assert!(
                for_programs_below(root.path(), &machine).is_empty(),
                "not of all nodes"
            );
            let id = node.id.0;
            let path = root
                .path()
                .join(format!("sys/devices/system/node/node{id}"));
            fs::create_dir_all(&path).unwrap();
            let text = format!(
                "Node {id} MemFree: 1000 kB\nNode {id} Active(file): 60 kB\nNode {id} Inactive(file): 10 kB\n\
                Node {id} SReclaimable: 200 kB\n"
            );
            fs::write(path.join("meminfo"), text).unwrap();
        }
        // Of 70 kB of cache at most half is kept, of the slabs as well.
        let found = for_programs_below(root.path(), &machine);
        assert_eq!(found, [(960 + 35 + 160) << 10, (600 + 35 + 100) << 10]);
    }
}
