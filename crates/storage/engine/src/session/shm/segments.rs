//! Segments of sessions as files of /dev/shm: whether any process still uses one.
//!
//! Locks on pools show this for the session of those pools, but not for the pools of a copy, which has the same UUID
//! in another file. Only the directories of the pools' owner are read: no other user can put anything there.

use crate::format::Superblock;
use crate::session::trust::Owner;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `fcntl` command of Linux: sets the signal that a lease's holder gets when another process opens the file.
const F_SETSIG: i32 = 10;

/// Whether any process maps a segment; `None` when the kernel does not say.
///
/// A read lease is granted only on a file that no process holds open for writing. A shared, writable mapping counts as
/// open for writing, in whatever namespace its process is.
pub(crate) fn is_mapped(path: &Path) -> Option<bool> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return (error.kind() == io::ErrorKind::NotFound).then_some(false),
    };
    // A process that opens the file before the lease ends waits, and this process gets a signal. SIGURG is ignored by
    // default; the default signal would end this process.
    // SAFETY: an open descriptor of ours and plain integers.
    let leased = unsafe {
        libc::fcntl(file.as_raw_fd(), F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) == 0
    };
    let error = io::Error::last_os_error();
    drop(file);
    if leased {
        Some(false)
    } else {
        // Another member of the group may not ask. Then the segment counts as mapped, so that no live session is
        // removed.
        matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)).then_some(true)
    }
}

/// Remove a segment that no process is attached to.
pub(crate) fn remove_segment(path: &Path) {
    // A failure means that it was removed already.
    let _ = std::fs::remove_file(path);
}

/// Segments of a volume, in the directories of its owner.
pub(crate) fn segments_of(owner: Owner, volume: &Superblock) -> Vec<PathBuf> {
    let prefix = format!("{}-", uuid::Uuid::from_bytes(volume.volume).simple());
    let entries = owner.session_directories(volume).flat_map(|directory| {
        let entries = std::fs::read_dir(directory).into_iter();
        entries.flatten().flatten()
    });
    entries
        .filter(|entry| entry.file_name().as_bytes().starts_with(prefix.as_bytes()))
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()))
        .map(|entry| entry.path())
        .collect()
}

/// Whether any process uses any session of a volume with this UUID, as far as the kernel shows.
pub(crate) fn is_any_mapped(owner: Owner, volume: &Superblock) -> bool {
    let segments = segments_of(owner, volume);
    segments.iter().any(|path| is_mapped(path) == Some(true))
}

/// Path of the segment of this name, or the first path where it could be.
pub(crate) fn find_segment(owner: Owner, volume: &Superblock, name: &str) -> Option<PathBuf> {
    let places = owner.session_directories(volume);
    let mut places = places.map(|directory| directory.join(name)).peekable();
    let first = places.peek().cloned();
    let there = |path: &PathBuf| path.symlink_metadata().is_ok();
    places.find(there).or(first)
}

/// How often this process maps a segment; `None` when /proc does not show it.
pub(crate) fn mappings_here(segment: &Path) -> Option<usize> {
    let list = std::fs::read("/proc/self/maps").ok()?;
    let begins_at = |line: &&[u8]| line.split(|byte| *byte == b' ').nth(2) == Some(b"00000000");
    let path = segment.as_os_str().as_bytes();
    let names = |line: &&[u8]| line.windows(path.len()).any(|part| part == path);
    let lines = list.split(|byte| *byte == b'\n');
    Some(lines.filter(begins_at).filter(names).count())
}

/// Identifies a file or device on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileIdentity {
    device: u64,
    /// 0 for a device file: the device counts, not its node.
    inode: u64,
}

impl FileIdentity {
    /// Of memory without a file.
    pub(crate) const NONE: FileIdentity = FileIdentity {
        device: 0,
        inode: 0,
    };

    pub(crate) fn of(file: &File) -> io::Result<FileIdentity> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let metadata = file.metadata()?;
        let kind = metadata.file_type();
        Ok(if kind.is_block_device() || kind.is_char_device() {
            FileIdentity {
                device: metadata.rdev(),
                inode: 0,
            }
        } else {
            FileIdentity {
                device: metadata.dev(),
                inode: metadata.ino(),
            }
        })
    }
}

/// A segment to remove after this process has unmapped it, unless another process still uses it.
#[derive(Default)]
pub(crate) struct Leftover(pub(crate) Option<PathBuf>);

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Some(path) = self.0.take()
            && is_mapped(&path) != Some(true)
        {
            remove_segment(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::trust::open_carefully;

    #[test]
    fn a_segment_is_mapped_until_the_last_mapping_goes() {
        let path = Path::new("/dev/shm").join(format!("egeria-test-{}", std::process::id()));
        assert_eq!(is_mapped(&path), Some(false), "there is none");
        std::fs::write(&path, [0; 4096]).expect("a file");
        let file = open_carefully(&path, 0).expect("open");
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (flags, fd) = (libc::MAP_SHARED, file.as_raw_fd());
        // SAFETY: a fresh mapping, this test's alone.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), 4096, access, flags, fd, 0) };
        assert_ne!(mapping, libc::MAP_FAILED);
        drop(file);
        assert_eq!(is_mapped(&path), Some(true));
        assert_eq!(mappings_here(&path), Some(1));
        // SAFETY: mapped above, and not used any more.
        unsafe { libc::munmap(mapping, 4096) };
        assert_eq!(mappings_here(&path), Some(0));
        assert_eq!(is_mapped(&path), Some(false));
        remove_segment(&path);
    }
}
