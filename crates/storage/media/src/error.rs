//! Errors of a pool, each in one line with its cause and its hint.

use std::io;
use std::path::{Path, PathBuf};

/// Result of everything in this crate that is not a hot copy.
pub type Result<T, E = MediaError> = std::result::Result<T, E>;

/// An operation on a pool that failed.
#[derive(Debug, thiserror::Error)]
pub enum MediaError {
    /// An access beyond the pool's end: invalid data on media, or a bug in a caller.
    #[error(
        "access of {bytes} bytes at {offset:#x} leaves a pool of {pool_bytes} bytes: \
         the volume is damaged; run `egeria check`"
    )]
    OutOfBounds {
        /// First byte of the access.
        offset: u64,
        /// Bytes of the access.
        bytes: u64,
        pool_bytes: u64,
    },
    /// An 8-byte access that is not 8-byte aligned.
    #[error("8-byte access at unaligned {offset:#x}: the volume is damaged; run `egeria check`")]
    Misaligned {
        /// First byte of the access.
        offset: u64,
    },
    /// Pool memory that is mapped but gone: the file was truncated or the media is bad.
    #[error(
        "the pool's memory at {offset:#x} is gone (file truncated or bad media): \
         restore the pool to its full size, then run `egeria check`"
    )]
    Fault {
        /// First byte of the access that faulted.
        offset: u64,
    },
    /// A store to a pool opened read-only.
    #[error("store at {offset:#x} to a pool opened read-only; open it for writing")]
    ReadOnly {
        /// First byte of the store.
        offset: u64,
    },
    /// The pool file exists and is not empty.
    #[error("{} holds data already; name another path, remove it, or use --force", path.display())]
    Exists {
        /// The pool's path.
        path: PathBuf,
    },
    /// The requested or present size is not valid for a pool.
    #[error("{}: {bytes} bytes cannot be a pool: {hint}", path.display())]
    BadSize {
        /// The pool's path.
        path: PathBuf,
        /// The asked or found size.
        bytes: u64,
        hint: &'static str,
    },
    /// Not a regular file, block device or device-DAX device.
    #[error("{} is a {kind}, not a file or a DAX device; name a file instead", path.display())]
    NotAPool {
        /// The pool's path.
        path: PathBuf,
        kind: &'static str,
    },
    /// The operating system refused.
    #[error("{}: {action}: {source}; {hint}", path.display())]
    Io {
        /// The pool's path.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system answered.
        source: io::Error,
        hint: &'static str,
    },
}

impl MediaError {
    /// An [`MediaError::Io`] with the hint that fits the system's answer.
    pub(crate) fn io(path: &Path, action: &'static str, source: io::Error) -> MediaError {
        let hint = match source.raw_os_error() {
            Some(libc::ENOENT) => "check the path",
            Some(libc::EACCES | libc::EPERM) => {
                "use an account that may open the pool, or go through the mount"
            }
            Some(libc::ENOSPC) => "free space there or make the pool smaller",
            Some(libc::ENOMEM) => {
                "free memory, raise the mapping limit, or reserve more huge pages"
            }
            Some(libc::EROFS) => "open it read-only or remount its file system writable",
            Some(libc::EMFILE | libc::ENFILE) => "close files or raise the limit of open files",
            _ => "check the device and the kernel log",
        };
        MediaError::Io {
            path: path.to_owned(),
            action,
            source,
            hint,
        }
    }
}

/// The memory that made a copy fail; small, for the hot copy routines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AccessFault {
    /// The pool's: out of bounds, read-only, or memory gone. Becomes `EIO`.
    #[error("pool memory cannot be accessed")]
    Pool,
    /// The caller's buffer. Becomes `EFAULT`.
    #[error("the caller's buffer cannot be accessed")]
    Caller,
}
