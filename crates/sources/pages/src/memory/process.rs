//! The memory of a process.

use std::fs::File;
use std::io::{self, BufReader};

use egeria_proc::living;

use crate::kernel::borrowed;
use crate::kernel::mount::Mounts;
use crate::kernel::numa_maps::Memory;

/// What a process has mapped, by node. The kernel walks all its page tables for that, which takes about a second for
/// 100 GiB.
///
/// # Errors
/// `ENOENT` or `ESRCH` when it is gone or the kernel has no NUMA support, `EACCES` when it is another user's.
pub fn memory(process_id: u32) -> io::Result<Memory> {
    let file = File::open(living::path(process_id, "numa_maps"))?;
    Memory::read(BufReader::with_capacity(1 << 16, file))
}

/// Open regular files of a process, each once, at most `max`. Files of file systems that another user serves are left
/// out, because their server may never answer.
///
/// # Errors
/// When it is gone or another user's.
pub fn open_files(process_id: u32, max: usize) -> io::Result<Vec<OpenFile>> {
    use std::os::unix::fs::MetadataExt;
    let mut files: Vec<OpenFile> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mounts = Mounts::of(process_id);
    for entry in std::fs::read_dir(living::path(process_id, "fd"))?.flatten() {
        let link = entry.path();
        let Some(descriptor) = borrowed::number(&link) else {
            continue;
        };
        // A regular file's link is its path; a pipe's or a socket's does not begin with a slash.
        let Ok(path) = std::fs::read_link(&link) else {
            continue;
        };
        if !path.has_root() || files.len() >= max || !mounts.answer(process_id, descriptor) {
            continue;
        }
        let Ok(metadata) = std::fs::metadata(&link) else {
            continue;
        };
        if metadata.is_file() && seen.insert((metadata.dev(), metadata.ino())) {
            files.push(OpenFile {
                process_id,
                descriptor,
                path,
            });
        }
    }
    Ok(files)
}

/// A file that a process has open.
#[derive(Debug)]
pub struct OpenFile {
    process_id: u32,
    descriptor: u32,
    /// Its path when the kernel was asked.
    pub path: std::path::PathBuf,
}

impl OpenFile {
    /// That very file, whatever its path names now; see [`borrowed::file`].
    ///
    /// # Errors
    /// Those of [`borrowed::file`].
    pub fn borrow(&self) -> io::Result<File> {
        borrowed::file(self.process_id, self.descriptor)
    }
}
