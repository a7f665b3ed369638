//! The memory limit of the control groups that a process is in.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits above this mean none: the first version of control groups writes a large number.
const NONE_ABOVE: u64 = 1 << 60;

/// The lowest limit, bytes; `None` without any.
pub(crate) fn memory(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = groups.lines().filter_map(|line| of_line(root, line));
    limits.min()
}

/// A line is `NUMBER:CONTROLLERS:PATH`, without controllers for the second version.
fn of_line(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (top, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        controllers if controllers.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let top = root.join(top);
    let below: PathBuf = top.join(path.trim_start_matches('/'));
    // Those above limit as well.
    let groups = below
        .ancestors()
        .take_while(|group| group.starts_with(&top));
    let limits = groups.filter_map(|group| fs::read_to_string(group.join(file)).ok());
    let limits = limits.filter_map(|limit| limit.trim().parse::<u64>().ok());
    limits.filter(|limit| *limit < NONE_ABOVE).min()
}
