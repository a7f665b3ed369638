//! Caches, from the kernel's files below a root.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use egeria_machine::{CpuId, Node, parse_cpu_list};

/// Taken where the kernel says nothing of caches.
const UNKNOWN_CACHE_BYTES: u64 = 32 << 20;

/// Larger ones are nonsense.
const MAX_CACHE_BYTES: u64 = 1 << 36;

/// The last-level cache of a node's CPUs, and what is below it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NodeCache {
    /// Of all its parts together.
    pub(crate) bytes: u64,
    /// The same with the data caches of all levels below, which may hold other lines than it.
    pub(crate) all_bytes: u64,
    /// Of the part that one CPU sees.
    pub(crate) part_bytes: u64,
    /// Whether the kernel said so.
    pub(crate) is_known: bool,
}

/// The caches of a node's CPUs.
pub(crate) fn of_node(root: &Path, node: &Node) -> NodeCache {
    let mut parts = BTreeMap::<(u32, Vec<CpuId>), u64>::new();
    let mut last = BTreeMap::<Vec<CpuId>, u64>::new();
    for cpu in &node.cpus {
        let caches = of_cpu(root, *cpu);
        let of_last = caches.iter().max_by_key(|(level, ..)| *level);
        last.extend(of_last.map(|(_, sharers, bytes)| (sharers.clone(), *bytes)));
        let caches = caches.into_iter();
        parts.extend(caches.map(|(level, sharers, bytes)| ((level, sharers), bytes)));
    }
    match last.values().max() {
        Some(part_bytes) => NodeCache {
            bytes: last.values().sum(),
            all_bytes: parts.values().sum(),
            part_bytes: *part_bytes,
            is_known: true,
        },
        None => NodeCache {
            bytes: UNKNOWN_CACHE_BYTES,
            all_bytes: UNKNOWN_CACHE_BYTES,
            part_bytes: UNKNOWN_CACHE_BYTES,
            is_known: false,
        },
    }
}

/// The caches that data of a CPU may be in: level, who shares it, and its size.
fn of_cpu(root: &Path, cpu: CpuId) -> Vec<(u32, Vec<CpuId>, u64)> {
    let of_index = |index: u32| {
        let cpu = format!("sys/devices/system/cpu/cpu{}", cpu.0);
        let directory = root.join(cpu).join(format!("cache/index{index}"));
        let level: u32 = text(&directory.join("level"))?.parse().ok()?;
        let bytes = size(&text(&directory.join("size"))?)?;
        let sharers = parse_cpu_list(&text(&directory.join("shared_cpu_list"))?).ok()?;
        let holds_data = text(&directory.join("type")).as_deref() != Some("Instruction");
        holds_data.then_some((level, sharers, bytes))
    };
    (0..16).filter_map(of_index).collect()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

/// As `32768K`.
fn size(text: &str) -> Option<u64> {
    let (number, factor) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 1 << 10),
        b'M' => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let bytes = number.parse::<u64>().ok()?.checked_mul(factor)?;
    (1..=MAX_CACHE_BYTES).contains(&bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use egeria_machine::{Machine, NodeId};

    use super::*;

    fn node(cpus: u16) -> Node {
        let text = format!("name = \"x\"\n[[nodes]]\nid = 0\ncpus = \"0-{}\"", cpus - 1);
        let machine = Machine::from_toml(&text, "x".as_ref()).unwrap();
        machine.node(NodeId(0)).unwrap().clone()
    }

    fn write(root: &Path, cpu: u16, name: &str, text: &str) {
        let path = root.join(format!("sys/devices/system/cpu/cpu{cpu}/{name}"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn cache(root: &Path, cpu: u16, index: u32, level: &str, size: &str, sharers: &str) {
        let at = |name: &str| format!("cache/index{index}/{name}");
        write(root, cpu, &at("level"), level);
        write(root, cpu, &at("size"), size);
        write(root, cpu, &at("shared_cpu_list"), sharers);
    }

    /// Two parts of a last-level cache, each shared by two CPUs.
    #[test]
    fn parts_of_a_cache_add_up_once_each() {
        let root = tempfile::tempdir().unwrap();
        for cpu in 0..4 {
            cache(root.path(), cpu, 0, "1\n", "32K\n", &cpu.to_string());
            cache(root.path(), cpu, 1, "1\n", "64K\n", &cpu.to_string());
            write(root.path(), cpu, "cache/index1/type", "Instruction\n");
            let sharers = if cpu < 2 { "0-1\n" } else { "2-3\n" };
            cache(root.path(), cpu, 3, "3\n", "32768K\n", sharers);
        }
        let found = of_node(root.path(), &node(4));
        let expected = NodeCache {
            bytes: 64 << 20,
            all_bytes: (64 << 20) + 4 * (32 << 10),
            part_bytes: 32 << 20,
            is_known: true,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn nonsense_and_silence_are_no_cache() {
        let root = tempfile::tempdir().unwrap();
        assert!(!of_node(root.path(), &node(1)).is_known);
        for size in [
            "",
            "K",
            "x",
            "-1K",
            "0",
            "99999999999999999999K",
            "9999999M",
        ] {
            cache(root.path(), 0, 0, "3", size, "0");
            assert!(!of_node(root.path(), &node(1)).is_known, "{size:?}");
        }
        cache(root.path(), 0, 0, "3", "1M", "0-");
        assert!(!of_node(root.path(), &node(1)).is_known);
    }
}
