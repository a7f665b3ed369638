//! Where a path begins.

use super::descriptor;
use crate::description::record::may_any_be_deferred;
use crate::descriptors::table;
use crate::system::raw;
use crate::thread::Thread;
use crate::volumes::mounts::{self, Mount, Use, is_fresh, ticks};
use egeria_engine::{InodeNumber, Volume};
use libc::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

/// How often the working directory was changed.
static CHANGES: AtomicU64 = AtomicU64::new(1);

/// A directory of a volume, and a path from it on.
pub struct Start<'p> {
    pub mount: &'static Mount,
    pub volume: &'static Volume,
    /// How it may be used.
    pub usage: Use,
    /// The directory, or for a descriptor alone the inode.
    pub ino: InodeNumber,
    /// The path; empty for the directory itself.
    pub path: &'p [u8],
}

/// The working directory is about to change, or has.
pub fn note_directory_change() {
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Where a path of the program leads into a volume; `None` when it leads elsewhere. The caller is inside.
#[inline(always)]
pub fn start<'p>(thread: &Thread, directory: c_int, path: &'p [u8]) -> Option<Start<'p>> {
    if path.first() == Some(&b'/') {
        let (mount, path) = mounts::all().find_map(|mount| Some((mount, mount.inside(path)?)))?;
        // The mount point's own path means what it means with a slash at its end.
        let path = if path.is_empty() { b"/" } else { path };
        return begin(mount, InodeNumber::ROOT, path);
    }
    let (mount, ino) = match directory {
        libc::AT_FDCWD => working_directory(thread)?,
        _ => ask_place(directory)?,
    };
    begin(mount, ino, path)
}

/// Whether a path may lead into a volume, as far as its text and the working directory say. The caller is inside.
pub fn may_lead_inside(thread: &Thread, directory: c_int, path: &[u8]) -> bool {
    match (path.first(), directory) {
        (Some(b'/'), _) => mounts::all().any(|mount| mount.inside(path).is_some()),
        (_, libc::AT_FDCWD) => working_directory(thread).is_some(),
        _ => true,
    }
}

/// What a descriptor means, when it is on a volume. The caller is inside.
pub fn of_descriptor(fd: c_int) -> Option<Start<'static>> {
    let (mount, ino) = ask_place(fd)?;
    begin(mount, ino, b"")
}

fn begin<'p>(mount: &'static Mount, ino: InodeNumber, path: &'p [u8]) -> Option<Start<'p>> {
    let usage = mount.usage()?;
    let volume = mount.volume()?;
    Some(Start {
        mount,
        volume,
        usage,
        ino,
        path,
    })
}

/// Where the working directory is. Remembered for the thread until it is changed, or was looked at too long ago:
/// other threads change it, too, and some past libc.
#[inline(always)]
fn working_directory(thread: &Thread) -> Option<(&'static Mount, InodeNumber)> {
    let seen = &thread.working_directory;
    let changes = CHANGES.load(Ordering::Acquire);
    if seen.changes.load(Ordering::Relaxed) != changes
        || !is_fresh(seen.seen_at_ticks.load(Ordering::Relaxed))
    {
        seen.seen_at_ticks.store(ticks(), Ordering::Relaxed);
        let place = ask_place(libc::AT_FDCWD);
        let mount = place.map_or(std::ptr::null(), |(mount, _)| std::ptr::from_ref(mount));
        let ino = place.map_or(0, |(_, ino)| ino.0);
        seen.mount.store(mount.cast_mut().cast(), Ordering::Relaxed);
        seen.ino.store(ino, Ordering::Relaxed);
        seen.changes.store(changes, Ordering::Relaxed);
    }
    let mount = seen.mount.load(Ordering::Relaxed).cast::<Mount>();
    // SAFETY: a mount is known for good; this is one or null.
    let mount = unsafe { mount.as_ref() }?;
    Some((mount, InodeNumber(seen.ino.load(Ordering::Relaxed))))
}

/// Whether a number is good for more than paths (`O_PATH`). The caller is inside.
pub fn is_open(fd: c_int) -> bool {
    if let Some((_, _, is_path)) = deferred(fd) {
        return !is_path;
    }
    let status = raw::fcntl(fd, libc::F_GETFL, 0);
    status >= 0 && status as c_int & libc::O_PATH == 0
}

/// The file of a number that is a placeholder, and whether it is one for paths alone. The caller is inside.
fn deferred(fd: c_int) -> Option<(&'static Mount, InodeNumber, bool)> {
    let word = table::load(fd);
    if !may_any_be_deferred() || !word.is_ours() {
        return None;
    }
    let mut place = None;
    descriptor::while_used(fd, |record| {
        let origin = record.origin().filter(|_| record.is_deferred());
        place = origin.map(|origin| (origin.mount, record.ino(), record.is_path()));
    });
    let (id, ino, is_path) = place?;
    let mount = mounts::all().find(|mount| mount.id() == id)?;
    Some((mount, ino, is_path))
}

/// The kernel knows without asking the mount.
fn ask_place(fd: c_int) -> Option<(&'static Mount, InodeNumber)> {
    mounts::all().next()?;
    if let Some((mount, ino, _)) = deferred(fd) {
        return Some((mount, ino));
    }
    let mut facts = MaybeUninit::<libc::statx>::zeroed();
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    let wanted = libc::STATX_INO | libc::STATX_MNT_ID_UNIQUE;
    if raw::statx(fd, c"".as_ptr(), flags, wanted, facts.as_mut_ptr()) < 0 {
        return None;
    }
    // SAFETY: zeroed, which is valid, and filled by the kernel.
    let facts = unsafe { facts.assume_init() };
    let mount = mounts::all().find(|mount| mount.id() == facts.stx_mnt_id)?;
    Some((mount, InodeNumber(facts.stx_ino)))
}
