//! Free room in the memory control groups (cgroups) of this process. Pages of tmpfs are charged to the process that
//! touches them first. Where its group is full, the kernel kills a process of the group instead of refusing the page.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Mount points of groups: version 2, version 2 next to version 1, version 1.
const UNIFIED: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const SEPARATE: &str = "/sys/fs/cgroup/memory";
/// Bytes that a group keeps for everything but sessions.
const MARGIN_BYTES: u64 = 4 << 20;
/// Upper limit of bytes taken between two checks, and share of the room: other processes take from it, too.
const MAX_ALLOWANCE_BYTES: u64 = 16 << 20;
const ALLOWANCE_PART: u64 = 8;
/// How long the result of a check is used, ns.
const LOOK_NS: u64 = 100_000_000;
/// Bytes a process may take before its first check, far less than its start took: a check reads several files.
const FIRST_ALLOWANCE_BYTES: u64 = 64 << 10;
/// A limit from this value on means no limit, bytes: version 1 has no word for that.
const NO_LIMIT_BYTES: u64 = 1 << 62;

/// Bytes that may be taken before the next check.
static ALLOWANCE_BYTES: AtomicU64 = AtomicU64::new(FIRST_ALLOWANCE_BYTES);
/// When the last look was, by [`clock_ns`].
static LOOKED_NS: AtomicU64 = AtomicU64::new(0);

/// Whether the groups of this process have room for this many more bytes. A group that cannot be read counts as having
/// room.
pub(in crate::session) fn has_room(bytes: u64) -> bool {
    let now_ns = clock_ns();
    let fresh = now_ns.saturating_sub(LOOKED_NS.load(Ordering::Relaxed)) < LOOK_NS;
    let take = |left: u64| left.checked_sub(bytes);
    let taken = ALLOWANCE_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
    if fresh && taken.is_ok() {
        return true;
    }
    let room_bytes = room_bytes(Path::new("/proc/self/cgroup")).unwrap_or(u64::MAX);
    let Some(left) = room_bytes.saturating_sub(MARGIN_BYTES).checked_sub(bytes) else {
        return false;
    };
    let allowance = (left / ALLOWANCE_PART).min(MAX_ALLOWANCE_BYTES);
    ALLOWANCE_BYTES.store(allowance, Ordering::Relaxed);
    LOOKED_NS.store(now_ns, Ordering::Relaxed);
    true
}

/// Time since this process asked first, ns.
fn clock_ns() -> u64 {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let begin = BEGIN.get_or_init(Instant::now);
    begin.elapsed().as_nanos() as u64
}

/// The smallest room of this process's groups, bytes; `None` if no limit is known.
fn room_bytes(own_groups: &Path) -> Option<u64> {
    let text = fs::read_to_string(own_groups).ok()?;
    let lines = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        Some((controllers, path))
    });
    let rooms = lines.filter_map(|(controllers, path)| {
        if controllers.is_empty() {
            let mount = UNIFIED.iter().map(Path::new);
            let mut mount = mount.filter(|mount| mount.join("cgroup.controllers").exists());
            return mount
                .next_back()
                .and_then(|mount| min_room(mount, path, &VERSION_2));
        }
        let is_memory = controllers.split(',').any(|name| name == "memory");
        is_memory
            .then(|| min_room(Path::new(SEPARATE), path, &VERSION_1))
            .flatten()
    });
    rooms.min()
}

/// The names that a version of groups uses.
struct Names {
    limit: &'static str,
    usage: &'static str,
    /// Page cache of files, which the kernel drops when memory is needed.
    cached: [&'static str; 2],
}

const VERSION_1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cached: ["total_inactive_file", "total_active_file"],
};
const VERSION_2: Names = Names {
    limit: "memory.max",
    usage: "memory.current",
    cached: ["inactive_file", "active_file"],
};

/// The smallest room among a group and its ancestors up to the root of its mount. The mount may show only a part of
/// the tree. Then the path may not exist here, and the mount's root is used.
fn min_room(mount: &Path, group: &str, names: &Names) -> Option<u64> {
    let own: PathBuf = mount.join(group.trim_start_matches('/'));
    let own = if own.is_dir() { own } else { mount.to_owned() };
    let groups = own.ancestors().take_while(|at| at.starts_with(mount));
    groups.filter_map(|group| room_of(group, names)).min()
}

fn room_of(group: &Path, names: &Names) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(group.join(name)).ok()?;
        text.trim().parse().ok()
    };
    // "max" is no number, and no limit.
    let limit_bytes = number(names.limit).filter(|limit| *limit < NO_LIMIT_BYTES)?;
    let usage_bytes = number(names.usage)?;
    let free_bytes = limit_bytes.saturating_sub(usage_bytes);
    if free_bytes > MAX_ALLOWANCE_BYTES * ALLOWANCE_PART * 2 {
        // Then what could be dropped does not matter.
        return Some(free_bytes);
    }
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = statistics.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        let value: u64 = value.parse().ok()?;
        names.cached.contains(&name).then_some(value)
    });
    Some(free_bytes.saturating_add(cached.sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(directory: &Path, limit: &str, usage: &str, statistics: &str) {
        fs::create_dir_all(directory).expect("a directory");
        for (name, text) in [
            ("memory.max", limit),
            ("memory.current", usage),
            ("memory.stat", statistics),
        ] {
            fs::write(directory.join(name), text).expect("a file");
        }
    }

    #[test]
    fn min_room_of_all_groups_above_counts() {
        let mount = tempfile::tempdir().expect("a directory");
        let (outer, inner) = (mount.path().join("outer"), mount.path().join("outer/inner"));
        group(&outer, "10000\n", "4000\n", "anon 7\n");
        group(&inner, "max\n", "3000\n", "anon 7\n");
        let room = |group: &str| min_room(mount.path(), group, &VERSION_2);
        assert_eq!(room("/outer/inner"), Some(6000));
        group(
            &inner,
            "5000\n",
            "3000\n",
            "anon 9\ninactive_file 300\nactive_file 20\n",
        );
        assert_eq!(
            room("/outer/inner"),
            Some(2320),
            "page cache is dropped when needed"
        );
        assert_eq!(
            room("/elsewhere"),
            None,
            "a path of another namespace, and no limit"
        );
        fs::write(inner.join("memory.current"), "9000").expect("more than the limit");
        assert_eq!(room("/outer/inner"), Some(320));
        fs::write(inner.join("memory.max"), "nonsense").expect("a file");
        assert_eq!(room("/outer/inner"), Some(6000));
        fs::write(outer.join("memory.max"), "9223372036854771712").expect("no limit of version 1");
        assert_eq!(room("/outer/inner"), None);
    }

    #[test]
    fn own_groups_are_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let missing = room_bytes(&directory.path().join("none"));
        assert_eq!(missing, None);
        let odd = directory.path().join("cgroup");
        fs::write(&odd, "no colon\n1:memory\n\n2:cpu:/x\n").expect("a file");
        assert_eq!(room_bytes(&odd), None);
        assert!(has_room(4096), "this test runs");
    }
}
