//! How much memory can be had, from the kernel's files below a root.

use std::fs;
use std::path::{Path, PathBuf};

use egeria_machine::NodeId;

use crate::CalibrateError;

/// Refuses to take so many bytes of each node when a node, the machine or a control group has not as many.
pub(crate) fn check(root: &Path, needs: &[(NodeId, u64)]) -> Result<(), CalibrateError> {
    for &(node, needed) in needs {
        if let Some(free) = of_node(root, node) {
            refuse_beyond(format!("node {}", node.0), free, needed)?;
        }
    }
    let needed = needs.iter().map(|(_, bytes)| bytes).sum();
    if let Some(free) = of_machine(root) {
        refuse_beyond("the machine".to_owned(), free, needed)?;
    }
    match of_control_groups(root) {
        Some(free) => refuse_beyond("the control group".to_owned(), free, needed),
        None => Ok(()),
    }
}

fn refuse_beyond(place: String, free: u64, needed: u64) -> Result<(), CalibrateError> {
    if needed > free {
        Err(CalibrateError::Memory {
            place,
            free,
            needed,
        })
    } else {
        Ok(())
    }
}

/// Free, or used for files that can be read again.
fn of_node(root: &Path, node: NodeId) -> Option<u64> {
    let path = root.join(format!("sys/devices/system/node/node{}/meminfo", node.0));
    let text = fs::read_to_string(path).ok()?;
    let bytes = |name: &str| kib(&text, name).unwrap_or(0);
    let files = bytes("Active(file):").saturating_add(bytes("Inactive(file):"));
    Some(kib(&text, "MemFree:")?.saturating_add(files))
}

fn of_machine(root: &Path) -> Option<u64> {
    kib(
        &fs::read_to_string(root.join("proc/meminfo")).ok()?,
        "MemAvailable:",
    )
}

/// The number after a name, which is in KiB, in bytes.
fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains(name))?;
    let number = line.split(name).nth(1)?.split_whitespace().next()?;
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// The least that this process's control group and those above it have left.
fn of_control_groups(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let top = root.join("sys/fs/cgroup");
    let mut group = top.join(path);
    let mut least: Option<u64> = None;
    while group.starts_with(&top) && !path.contains("..") {
        if let Some(left) = left_in(&group) {
            least = Some(least.map_or(left, |least| least.min(left)));
        }
        group = group.parent().map(PathBuf::from)?;
    }
    least
}

fn left_in(group: &Path) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(group.join(name)).ok()?;
        text.trim().parse().ok()
    };
    Some(number("memory.max")?.saturating_sub(number("memory.current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn refusal(root: &Path, needs: &[(NodeId, u64)]) -> String {
        let line = check(root, needs).unwrap_err().to_string();
        assert_eq!(line.lines().count(), 1);
        line
    }

    /// Node 1: 3 MiB free, 2 MiB of files; the machine: 8 MiB.
    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let at = root.path();
        write(
            at,
            "sys/devices/system/node/node1/meminfo",
            "Node 1 MemTotal: 9999 kB\nNode 1 MemFree:  3072 kB\nNode 1 Active(file): 1024 kB\nNode 1 Inactive(file): 1024 kB\n",
        );
        write(
            at,
            "proc/meminfo",
            "MemTotal: 99999 kB\nMemAvailable:  8192 kB\n",
        );
        root
    }

    #[test]
    fn a_node_gives_what_is_free_and_what_files_hold() {
        let root = tree();
        let node = NodeId(1);
        check(root.path(), &[(node, 5 << 20)]).unwrap();
        assert!(refusal(root.path(), &[(node, (5 << 20) + 1)]).starts_with("node 1 has 5.00 MiB "));
    }

    #[test]
    fn all_nodes_together_get_no_more_than_the_machine_has() {
        let root = tree();
        let needs = |each: u64| [(NodeId(0), each), (NodeId(1), each)];
        check(root.path(), &needs(4 << 20)).unwrap();
        let line = refusal(root.path(), &needs((4 << 20) + 1));
        assert!(line.starts_with("the machine has 8.00 MiB "), "{line}");
    }

    #[test]
    fn the_narrowest_control_group_counts() {
        let root = tree();
        let at = root.path();
        write(at, "proc/self/cgroup", "1:name=systemd:/x\n0::/a/b\n");
        write(at, "sys/fs/cgroup/a/b/memory.max", "max\n");
        write(at, "sys/fs/cgroup/a/memory.max", "4194304\n");
        write(at, "sys/fs/cgroup/a/memory.current", "1048576\n");
        check(at, &[(NodeId(0), 3 << 20)]).unwrap();
        let line = refusal(at, &[(NodeId(0), (3 << 20) + 1)]);
        assert!(
            line.starts_with("the control group has 3.00 MiB "),
            "{line}"
        );
    }

    #[test]
    fn a_kernel_that_says_nothing_refuses_nothing() {
        check(Path::new("/nonexistent"), &[(NodeId(0), u64::MAX / 2)]).unwrap();
    }

    #[test]
    fn nonsense_of_the_kernel_is_read_as_nothing() {
        let root = tree();
        for text in [
            "",
            "MemAvailable:",
            "MemAvailable: x kB",
            "MemAvailable: 99999999999999999999 kB",
        ] {
            write(root.path(), "proc/meminfo", text);
            write(root.path(), "proc/self/cgroup", "0::/../../..\n");
            check(root.path(), &[(NodeId(0), 1 << 40)]).unwrap();
        }
    }
}
