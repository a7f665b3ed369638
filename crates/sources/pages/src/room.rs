//! How much of a node's memory more pages of files can have.

use std::fs;
use std::path::Path;

use egeria_machine::NodeId;

/// What is free, and what the page cache has and can be dropped, bytes; `None` when the kernel does not say.
pub fn of(node: NodeId) -> Option<u64> {
    below(Path::new("/"), node)
}

fn below(root: &Path, node: NodeId) -> Option<u64> {
    let path = format!("sys/devices/system/node/node{}/meminfo", node.0);
    let text = fs::read_to_string(root.join(path)).ok()?;
    let bytes = |key: &str| {
        let mut words = text.split_whitespace().skip_while(|word| *word != key);
        words.nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
    };
    let dirty = bytes("Dirty:").unwrap_or(0);
    let files = bytes("Active(file):")?.checked_add(bytes("Inactive(file):")?)?;
    // The kernel keeps some of what is free for itself.
    let kept = bytes("MemTotal:")? / 50;
    let free = bytes("MemFree:")?.checked_add(files)?;
    Some(free.saturating_sub(dirty).saturating_sub(kept))
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
}
