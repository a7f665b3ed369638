//! Segments of sessions as files of /dev/shm: whose they are, and whether anybody still uses one.
//!
//! Locks on pools tell this for the session of those pools. They do not for the pools of a copy: same
//! UUID, other file.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;

/// Where the kernel shows segments.
const DIRECTORY: &str = "/dev/shm";
/// `fcntl` command of Linux: the signal that tells a lease's holder that somebody wants in.
const F_SETSIG: i32 = 10;

/// Whether any process maps a segment; `None` when the kernel does not tell.
///
/// A read lease is granted only on a file that nobody holds open for writing, and a shared, writable
/// mapping holds it so, in whatever namespace its process is.
pub(crate) fn is_mapped(name: &CString) -> Option<bool> {
    // SAFETY: a valid C string and flags; the result is checked.
    let descriptor = unsafe { libc::shm_open(name.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0) };
    if descriptor < 0 {
        let gone = io::Error::last_os_error().raw_os_error() == Some(libc::ENOENT);
        return gone.then_some(false);
    }
    // SAFETY: just opened, owned by nobody else.
    let file = unsafe { File::from_raw_fd(descriptor) };
    // Whoever opens it in the moment until the lease goes with the file waits, and we are told by a signal
    // that does nothing; the one sent if nothing is said would end this process.
    // SAFETY: an open descriptor of ours and plain integers.
    let leased = unsafe {
        libc::fcntl(descriptor, F_SETSIG, libc::SIGURG) == 0
            && libc::fcntl(descriptor, libc::F_SETLEASE, libc::F_RDLCK) == 0
    };
    let error = io::Error::last_os_error();
    drop(file);
    match leased {
        true => Some(false),
        false => (error.raw_os_error() == Some(libc::EAGAIN)).then_some(true),
    }
}

/// Whether any process uses any session of a volume with this UUID, as far as the kernel tells.
pub(crate) fn is_any_mapped(volume: &[u8; 16]) -> bool {
    let prefix = format!("egeria-{}-", uuid::Uuid::from_bytes(*volume).simple());
    let entries = std::fs::read_dir(DIRECTORY).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name())
        .filter(|name| name.as_bytes().starts_with(prefix.as_bytes()))
        .filter_map(|name| CString::new([b"/", name.as_bytes()].concat()).ok())
        .any(|name| is_mapped(&name) == Some(true))
}

/// How often this process maps a segment; `None` when /proc does not tell.
pub(crate) fn mappings_here(name: &CString) -> Option<usize> {
    let list = std::fs::read("/proc/self/maps").ok()?;
    let begins_at = |line: &&[u8]| line.split(|byte| *byte == b' ').nth(2) == Some(b"00000000");
    let path = name.as_bytes();
    let names = |line: &&[u8]| line.windows(path.len()).any(|part| part == path);
    let lines = list.split(|byte| *byte == b'\n');
    Some(lines.filter(begins_at).filter(names).count())
}

/// What tells a file or device from every other of this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileIdentity {
    device: u64,
    /// 0 for a device file: it is the device that counts, whatever its node.
    inode: u64,
}

impl FileIdentity {
    /// Of memory behind which there is no file.
    pub(crate) const NONE: FileIdentity = FileIdentity {
        device: 0,
        inode: 0,
    };

    pub(crate) fn of(file: &File) -> io::Result<FileIdentity> {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let metadata = file.metadata()?;
        let kind = metadata.file_type();
        Ok(match kind.is_block_device() || kind.is_char_device() {
            true => FileIdentity {
                device: metadata.rdev(),
                inode: 0,
            },
            false => FileIdentity {
                device: metadata.dev(),
                inode: metadata.ino(),
            },
        })
    }
}

/// A segment to remove once this process has let go of it, unless another still uses it.
#[derive(Default)]
pub(crate) struct Leftover(pub(crate) Option<CString>);

impl Drop for Leftover {
    fn drop(&mut self) {
        if let Some(name) = self.0.take()
            && is_mapped(&name) != Some(true)
        {
            crate::session::map::remove_segment(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_mapped_until_the_last_mapping_goes() {
        let name = CString::new(format!("/egeria-test-{}", std::process::id())).expect("no NUL");
        assert_eq!(is_mapped(&name), Some(false), "there is none");
        // SAFETY: a fresh segment; the mapping is this test's alone.
        unsafe {
            let flags = libc::O_CREAT | libc::O_RDWR | libc::O_CLOEXEC;
            let file = libc::shm_open(name.as_ptr(), flags, 0o600);
            assert!(file >= 0 && libc::ftruncate(file, 4096) == 0);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let mapping = libc::mmap(
                std::ptr::null_mut(),
                4096,
                access,
                libc::MAP_SHARED,
                file,
                0,
            );
            assert_ne!(mapping, libc::MAP_FAILED);
            libc::close(file);
            assert_eq!(is_mapped(&name), Some(true));
            assert_eq!(mappings_here(&name), Some(1));
            libc::munmap(mapping, 4096);
        }
        assert_eq!(mappings_here(&name), Some(0));
        assert_eq!(is_mapped(&name), Some(false));
        crate::session::map::remove_segment(&name);
    }
}
