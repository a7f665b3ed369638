//! Processes with a first thread that has ended while others run on. `/proc/PID` then shows a thread without memory,
//! files and mounts. What the process has is seen through any of the other threads.

use std::path::PathBuf;

use crate::task::{self, has_ended};

/// A thread that has what the process has: the first one unless it has ended. When the process is gone, its own number.
pub fn thread(process_id: u32) -> u32 {
    if !has_ended(process_id, process_id) {
        return process_id;
    }
    let threads = task::threads(process_id).into_iter();
    let mut living = threads.filter(|thread| !has_ended(process_id, *thread));
    living.next().unwrap_or(process_id)
}

/// Whether any thread of a process runs on. If not, its parent has only not noticed its end yet.
pub fn has_thread(process_id: u32) -> bool {
    !has_ended(process_id, thread(process_id))
}

/// The path of a file of a process in `/proc`, as `maps` or `fd/3`.
pub fn path(process_id: u32, file: &str) -> PathBuf {
    let thread = thread(process_id);
    PathBuf::from(format!("/proc/{process_id}/task/{thread}/{file}"))
}
