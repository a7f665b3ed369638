//! A file of the volume as the kernel has it: opened through a mount, for `mmap` and all else that needs a descriptor.
//!
//! 1. Find a mount of the volume in this process's list of mounts. Only mounts that root or this process's own user
//!    serves are asked: another user's could give any file.
//! 2. Ask it for a name by which the inode is opened once, whatever its own names are.
//! 3. Mark the file: from now on no process changes it past the kernel, so pages that the kernel maps stay true.

use crate::error::Error;
use crate::file::File;
use crate::volume::Volume;
use egeria_engine::control::{
    CONTROL_MAGIC, ControlReply, MountLine, NumberTicket, mark, serving_user, volume_mounts,
};
use egeria_engine::{Errno, InodeNumber, Outcome};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, openat, statx};
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The list of mounts that this process sees.
const MOUNT_LIST: &str = "/proc/self/mountinfo";
/// How often the kernel is asked for the size; it drops an answer that crosses the end of a write.
const SIZE_TRIES: usize = 100;
const NO_MOUNT: &str = "no mount of this volume is in reach, served by root or this user in another process; \
    mount it: egeria mount POOL DIRECTORY";

/// The inode of an open file, opened through the first mount that has it.
pub(crate) fn open(volume: &Volume, ino: InodeNumber, access: OFlags) -> Outcome<std::fs::File> {
    let engine = &*volume.inner;
    let generation = engine.attributes(ino)?.generation;
    let list = std::fs::read(MOUNT_LIST).map_err(errno_of)?;
    let mut why = Errno(libc::ENODEV);
    for mount in volume_mounts(&list) {
        match open_through(engine, &mount, (ino, generation), access) {
            Ok(Some(file)) => return Ok(file),
            Ok(None) => {}
            Err(errno) => why = errno,
        }
    }
    Err(why)
}

/// `None` where the mount is of another volume, or not to be trusted.
fn open_through(
    engine: &egeria_engine::Volume,
    mount: &MountLine,
    (ino, generation): (InodeNumber, u32),
    access: OFlags,
) -> Outcome<Option<std::fs::File>> {
    let point = Path::new(OsStr::from_bytes(&mount.point));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    // Found, but not opened: a mount that hangs is then waited for only when it can be trusted.
    let Ok(place) = rustix::fs::open(point, flags | OFlags::PATH, Mode::empty()) else {
        return Ok(None);
    };
    if !is_trusted(&place) {
        return Ok(None);
    }
    // Fails where the mount's process has ended.
    let root = openat(&place, c".", flags, Mode::empty()).ok();
    let Some(root) = root.filter(|root| leads_to(engine, root, InodeNumber::ROOT, None)) else {
        return Ok(None);
    };
    let ticket = NumberTicket::ask(&root, ino.0, generation).map_err(errno_of)?;
    let name = ticket.name().ok_or(Errno(libc::EIO))?;
    let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = openat(&root, name, flags, Mode::empty()).map_err(errno)?;
    if !leads_to(engine, &file, ino, Some(generation)) {
        return Err(Errno(libc::EIO));
    }
    mark(&file).map_err(errno_of)?;
    learn_size(&file)?;
    Ok(Some(file.into()))
}

/// Whether root, or the user that this process runs as, serves what is mounted there.
fn is_trusted(place: &OwnedFd) -> bool {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let Ok(facts) = statx(place, c"", flags, StatxFlags::TYPE) else {
        return false;
    };
    let device = u64::from(facts.stx_dev_major) << 32 | u64::from(facts.stx_dev_minor);
    let Ok(mut list) = std::fs::File::open(MOUNT_LIST) else {
        return false;
    };
    let user = serving_user(device, |room| {
        list.read(room).map_or(-1, |bytes| bytes as isize)
    });
    user.is_some_and(|user| user == 0 || user == rustix::process::geteuid().as_raw())
}

/// Whether another process serves this descriptor, as this inode of this volume. A process that serves the mount itself
/// would wait for itself at the first access to a mapping.
fn leads_to(
    engine: &egeria_engine::Volume,
    file: impl AsFd,
    ino: InodeNumber,
    generation: Option<u32>,
) -> bool {
    ControlReply::ask(file).is_ok_and(|reply| {
        reply.magic == CONTROL_MAGIC
            && reply.volume == *engine.uuid().as_bytes()
            && reply.mount_pid != std::process::id()
            && reply.ino == ino.0
            && generation.is_none_or(|generation| generation == reply.generation)
    })
}

/// Have the kernel learn the size: pages beyond the size that it knows raise `SIGBUS`.
fn learn_size(file: &OwnedFd) -> Outcome<()> {
    let size = |sync: AtFlags| {
        let facts = statx(file, c"", AtFlags::EMPTY_PATH | sync, StatxFlags::SIZE);
        facts.map(|facts| facts.stx_size).map_err(errno)
    };
    for _ in 0..SIZE_TRIES {
        let asked = size(AtFlags::STATX_FORCE_SYNC)?;
        if size(AtFlags::STATX_DONT_SYNC)? >= asked {
            break;
        }
    }
    Ok(())
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

fn errno_of(error: io::Error) -> Errno {
    Errno(error.raw_os_error().unwrap_or(libc::EIO))
}

impl File {
    /// The same file, opened by the kernel through a mount of the volume: for `mmap`, `sendfile`, `flock` and all else
    /// that needs a descriptor. It is opened as this file is, for reading or for writing.
    ///
    /// A mapping of it is live: it sees every later change, by any process and any way. To make that true, all
    /// processes use the file through the kernel until the descriptor and its last mapping are gone. Until then calls of
    /// `File` on it fail with `EBUSY`; use the descriptor.
    ///
    /// Needs a mount (`egeria mount`) that another process serves, as root or as this process's user.
    ///
    /// # Errors
    /// `ENODEV` where this process sees no such mount; `EROFS` where the mount refuses changes, also for reading; `EMFILE`;
    /// `EIO` for damage; `ENOTCONN` in a child.
    pub fn through_mount(&self) -> crate::Result<std::fs::File> {
        let access = match (self.reads, self.writes) {
            (true, true) => OFlags::RDWR,
            (false, true) => OFlags::WRONLY,
            (_, false) => OFlags::RDONLY,
        };
        let opened = self.checked("open through a mount", || {
            open(&self.volume, self.reference.ino(), access)
        });
        opened.map_err(|error| match error.errno() {
            libc::ENODEV => Error::new(libc::ENODEV, NO_MOUNT),
            _ => error,
        })
    }
}
