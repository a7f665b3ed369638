//! What the memory of a process is.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use egeria_cli::failure::{Failure, reason};
use egeria_pages::NodeBytes;
use egeria_pages::numa_maps::Memory;

use super::nodes::{self, FileOfMany, Store};

/// Why the memory of a process cannot be seen.
pub(in crate::commands) fn unseen(process_id: u32, error: &io::Error) -> Failure {
    let is_there = std::path::Path::new(&format!("/proc/{process_id}")).exists();
    let cause = match error.raw_os_error() {
        _ if !is_there => format!("there is no process {process_id} any more; check with `ps`"),
        Some(libc::ENOENT) => "this kernel has no NUMA support (no /proc/PID/numa_maps); nothing of a process can be remote on it".to_owned(),
        Some(libc::EACCES | libc::EPERM) => format!(
            "process {process_id} may not be looked at; run as root (in a container: with CAP_SYS_PTRACE)"
        ),
        _ => format!("cannot look at process {process_id}: {}; try again", reason(error)),
    };
    Failure::new(cause)
}

/// The files that a process has mapped, those with most first.
pub(super) fn mapped_files(memory: &Memory, max: usize) -> Vec<FileOfMany> {
    let mut files: Vec<(&Vec<u8>, &NodeBytes, u64)> = Vec::new();
    for (path, bytes) in &memory.by_file {
        files.push((path, bytes, bytes.total()));
    }
    files.sort_by(|one, other| other.2.cmp(&one.2).then(one.0.cmp(other.0)));
    let files = files.into_iter().take(max);
    let file = files.map(|(path, bytes, total)| FileOfMany {
        path: Path::new(OsStr::from_bytes(path)).into(),
        store: Store::PageCache,
        bytes: total,
        nodes: nodes::bytes_of_nodes(bytes),
    });
    file.collect()
}
