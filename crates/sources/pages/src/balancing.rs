//! The kernel's NUMA balancing.

use std::fs;
use std::path::Path;

/// Whether the kernel brings memory to the threads that access it, as the sysctl `kernel.numa_balancing` below this
/// `/proc` says. In mode 2 it only brings memory from slower nodes back.
pub fn is_on(proc: &Path) -> bool {
    let text = fs::read_to_string(proc.join("sys/kernel/numa_balancing")).unwrap_or_default();
    text.trim().parse::<u64>().is_ok_and(|mode| mode & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn balancing_is_on_in_the_modes_that_follow_threads() {
        let proc = tempfile::tempdir_in("/dev/shm").unwrap();
        assert!(!is_on(proc.path()), "no such setting");
        let file = proc.path().join("sys/kernel/numa_balancing");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        for (text, on) in [
            ("0\n", false),
            ("1\n", true),
            ("2\n", false),
            ("3\n", true),
            ("x", false),
        ] {
            fs::write(&file, text).unwrap();
            assert_eq!(is_on(proc.path()), on, "{text:?}");
        }
    }
}
