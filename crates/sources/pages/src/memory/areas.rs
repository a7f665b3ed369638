//! The mappings of a process.

use std::collections::HashSet;
use std::io;

pub use super::area::{Area, MappedFile};
use super::walk;

/// More mappings than a process can have (`vm.max_map_count` is 65,530 by default).
const MAX_MAPPINGS: usize = 1 << 22;

/// The mappings of a process that have pages, by address. Small ones that lie together and have the same policy are one.
///
/// # Errors
/// As for [`crate::memory::process::memory`].
pub fn of(process_id: u32) -> io::Result<Vec<Area>> {
    let all = walk::begin(process_id, "maps")?.next(MAX_MAPPINGS)?;
    Ok(all.parts.into_iter().map(|part| part.area).collect())
}

/// The files and the shared memory that a process has mapped.
///
/// # Errors
/// When the process is gone (`ESRCH`, `ENOENT`) or another user's (`EACCES`, `EPERM`).
pub fn files(process_id: u32) -> io::Result<HashSet<MappedFile>> {
    walk::files(process_id)
}
