//! Asking a mount which inode of which volume a path is (`egeria_fs::control`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use egeria_fs::control::{CONTROL_MAGIC, CONTROL_REQUEST, ControlReply};
use egeria_fs::{FileKind, InodeNumber};

use crate::failure::{Failure, Outcome};

/// What a mount says of a path.
#[derive(Debug)]
pub struct Identity {
    /// Volume.
    pub volume: uuid::Uuid,
    /// Inode.
    pub ino: InodeNumber,
    /// What the inode is.
    pub kind: FileKind,
    /// Path of pool 0, to attach by.
    pub pool: PathBuf,
    /// Process that serves the mount.
    pub mount_pid: u32,
}

/// Identity of a path on a mount; symbolic links are followed.
///
/// # Errors
/// When the path cannot be opened, or is not on a mount of Egeria.
pub fn identify(path: &Path) -> Outcome<Identity> {
    let metadata = std::fs::metadata(path).map_err(|error| unreachable_path(path, &error))?;
    let kind = FileKind::from_mode(metadata.mode()).unwrap_or(FileKind::Regular);
    let special = metadata.file_type();
    let special = special.is_fifo()
        || special.is_socket()
        || special.is_char_device()
        || special.is_block_device();
    if !special {
        return Ok(Identity { kind, ..ask(path)? });
    }
    // A pipe, socket or device opens as itself, past the mount: ask through its directory.
    let absolute = path
        .canonicalize()
        .map_err(|error| unreachable_path(path, &error))?;
    let identity = ask(absolute.parent().unwrap_or(Path::new("/")))?;
    Ok(Identity {
        kind,
        ino: InodeNumber(metadata.ino()),
        ..identity
    })
}

/// A pool of the volume that is meant: by a path on its mount, or by one of its pools.
///
/// # Errors
/// When the path is neither.
pub fn pool_of(path: &Path) -> Outcome<PathBuf> {
    match identify(path) {
        Ok(identity) => Ok(identity.pool),
        Err(failure) => match path.metadata() {
            Ok(metadata) if !metadata.is_dir() => Ok(path.to_owned()),
            _ => Err(failure),
        },
    }
}

fn ask(path: &Path) -> Outcome<Identity> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(|error| unreachable_path(path, &error))?;
    let not_ours = || {
        Failure::new(format!(
            "{} is not on a mount of Egeria; `egeria df` lists the mounts there are",
            path.display()
        ))
    };
    let reply = request(&file).ok_or_else(not_ours)?;
    let pool = reply.pool_path().ok_or_else(not_ours)?;
    Ok(Identity {
        volume: uuid::Uuid::from_bytes(reply.volume),
        ino: InodeNumber(reply.ino),
        kind: FileKind::Regular,
        pool: PathBuf::from(std::ffi::OsStr::from_bytes(pool)),
        mount_pid: reply.mount_pid,
    })
}

/// The reply of a genuine mount.
fn request(file: &File) -> Option<ControlReply> {
    let on_fuse =
        rustix::fs::fstatfs(file).is_ok_and(|fs| fs.f_type as u64 == libc::FUSE_SUPER_MAGIC as u64);
    if !on_fuse {
        return None;
    }
    // SAFETY: ControlReply is plain integers and bytes, for which zeros are valid.
    let mut reply: ControlReply = unsafe { std::mem::zeroed() };
    // SAFETY: the request is _IOR of ControlReply: the kernel writes at most its size, into `reply`.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), CONTROL_REQUEST.into(), &raw mut reply) };
    (status == 0 && reply.magic == CONTROL_MAGIC).then_some(reply)
}

fn unreachable_path(path: &Path, error: &io::Error) -> Failure {
    let mend = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => "check the path",
        Some(libc::EACCES | libc::EPERM) => "ask its owner, or run as root",
        Some(libc::ENOTCONN | libc::ECONNABORTED) => {
            "its mount process has ended: `egeria umount` the directory and mount again; nothing is lost"
        }
        _ => "check the path and the mount",
    };
    Failure::io("open", path, error, mend)
}
