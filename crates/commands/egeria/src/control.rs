//! Asking a mount which inode of which volume a path is (`egeria_engine::control`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use egeria_engine::control::{CONTROL_MAGIC, ControlReply};
use egeria_engine::{FileKind, InodeNumber};

use crate::owner;
use crate::served::{self, Served};
use egeria_cli::failure::{Failure, Outcome};

/// What a mount says of a path.
#[derive(Debug)]
pub struct Identity {
    pub volume: uuid::Uuid,
    pub ino: InodeNumber,
    /// What the inode is.
    pub kind: FileKind,
    /// Path of pool 0, to attach by.
    pub pool: PathBuf,
    /// Process that serves the mount.
    pub mount_pid: u32,
}

/// Identity of a path on a mount; symbolic links are followed. Root asks the mount of another user as that
/// user, and stays him: what a mount says of itself is what its user wants it to say.
///
/// # Errors
/// When the path cannot be opened, or is not on a mount of Egeria that may be believed.
pub fn identify(path: &Path) -> Outcome<Identity> {
    identify_mounted(path)?.ok_or_else(|| not_ours(path))
}

/// Identity of a path on a mount; `None` when the path is not on a mount of Egeria.
///
/// # Errors
/// When the path cannot be opened, or its mount not be believed.
pub fn identify_mounted(path: &Path) -> Outcome<Option<Identity>> {
    let failed = |error: io::Error| unreachable_path(path, &error);
    let place = look_at(path)?;
    let Some(mount) = served::of_open(&place)? else {
        return Ok(None);
    };
    believe(path, &mount)?;
    let metadata = place.metadata().map_err(failed)?;
    let kind = FileKind::from_mode(metadata.mode()).unwrap_or(FileKind::Regular);
    let special = metadata.file_type();
    let special = special.is_fifo()
        || special.is_socket()
        || special.is_char_device()
        || special.is_block_device();
    if !special {
        let identity = ask(path, &place)?;
        return Ok(Some(Identity { kind, ..identity }));
    }
    // A pipe, socket or device opens as itself, past the mount: ask through its directory.
    let absolute = path.canonicalize().map_err(failed)?;
    let identity = identify(absolute.parent().unwrap_or(Path::new("/")))?;
    let ino = InodeNumber(metadata.ino());
    Ok(Some(Identity {
        kind,
        ino,
        ..identity
    }))
}

/// A pool of the volume that is meant: by a path on its mount, or by one of its pools. This process has the
/// rights of its owner from here on.
///
/// # Errors
/// When the path is neither.
pub fn pool_of(path: &Path) -> Outcome<PathBuf> {
    let pool = match identify_mounted(path)? {
        Some(identity) => identity.pool,
        None if path.is_dir() => return Err(not_ours(path)),
        None => path.to_owned(),
    };
    owner::run_as_owner(&pool)?;
    Ok(pool)
}

/// The file a path names, found but not opened.
fn look_at(path: &Path) -> Outcome<File> {
    let mut options = File::options();
    let options = options.read(true).custom_flags(libc::O_PATH);
    options
        .open(path)
        .map_err(|error| unreachable_path(path, &error))
}

/// Refuses a mount that another user serves, or becomes that user.
fn believe(path: &Path, mount: &Served) -> Outcome {
    if mount.is_believed() {
        return Ok(());
    }
    if owner::is_root() {
        let directory = served::shown(&mount.directory);
        return owner::become_user(mount.user, &format!("who mounted {directory}"));
    }
    Err(Failure::new(format!(
        "{} is on a mount of another user (uid {}); run the command as that user",
        path.display(),
        mount.user
    )))
}

fn not_ours(path: &Path) -> Failure {
    Failure::new(format!(
        "{} is not on a mount of Egeria; `egeria df` lists the mounts there are",
        path.display()
    ))
}

/// Asks the mount that this file is on, which is believed.
fn ask(path: &Path, place: &File) -> Outcome<Identity> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", place.as_raw_fd()))
        .map_err(|error| unreachable_path(path, &error))?;
    let reply = request(&file).ok_or_else(|| not_ours(path))?;
    let pool = reply.pool_path().ok_or_else(|| not_ours(path))?;
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
    let reply = ControlReply::ask(file).ok()?;
    (reply.magic == CONTROL_MAGIC).then_some(reply)
}

fn unreachable_path(path: &Path, error: &io::Error) -> Failure {
    let hint = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => "check the path",
        Some(libc::EACCES | libc::EPERM) if owner::is_root() => {
            "another user mounted it for himself: run the command as that user"
        }
        Some(libc::EACCES | libc::EPERM) => "ask its owner, or run as root",
        Some(libc::ENOTCONN | libc::ECONNABORTED) => {
            "its mount process has ended: `egeria umount` the directory and mount again; nothing is lost"
        }
        _ => "check the path and the mount",
    };
    Failure::io("open", path, error, hint)
}
