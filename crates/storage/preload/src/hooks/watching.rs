//! Watches of `inotify`, `fanotify` and `F_NOTIFY`. The kernel raises events for what it does itself: from the first watch on, names in
//! the volume are changed through it, and files are read and written through it that are watched, or were opened since.

use crate::description::record::Record;
use crate::description::reply::Reply;
use crate::descriptors::table;
use crate::serve;
use crate::serve::path::{self, Way, on_descriptor, on_path};
use crate::system::real;
use crate::volumes::watched;
use egeria_engine::PathStop;
use libc::{c_char, c_int, c_uint};

/// What is watched besides the path itself.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// What is in it, if it is a directory.
    Directory,
    /// All that this process has open: the mount, or the file system.
    All,
}

/// Before the kernel is asked to watch. Its own opening of a file is no event: that comes first.
fn prepare(directory: c_int, path: *const c_char, follows_last: bool, reach: Reach) {
    let mut is_in_volume = false;
    let watch = |way: &Way<'_>| {
        is_in_volume = true;
        // Without a place in the session changes stay unseen, as those of programs that use the Rust API do.
        let _ = way.volume.watch_names();
        if path.is_null() {
            watched::note(way.volume, &way.inode()?)
        } else {
            watched::note(way.volume, &way.find_or_own(follows_last, true)?)
        }
        Ok::<_, PathStop>(Reply::Pass)
    };
    if path.is_null() {
        on_descriptor(directory, watch)
    } else {
        on_path(directory, path, watch)
    };
    if is_in_volume {
        serve::open_all_in_kernel();
    }
    if reach == Reach::All {
        let mark = |record: &Record| {
            if !record.is_directory() {
                watched::mark(record.volume(), record.ino());
            }
        };
        table::for_each_ours(|fd, _| serve::quietly(fd, mark));
    }
}

/// `inotify_add_watch`.
pub(super) fn inotify_add_watch(fd: c_int, path: *const c_char, mask: u32) -> c_int {
    let follows_last = mask & libc::IN_DONT_FOLLOW == 0;
    prepare(libc::AT_FDCWD, path, follows_last, Reach::Directory);
    real::inotify_add_watch(fd, path, mask)
}

/// `fcntl(F_NOTIFY)`.
pub(super) fn notify(fd: c_int, events: usize) -> c_int {
    prepare(fd, std::ptr::null(), false, Reach::Directory);
    path::by_kernel(fd).unwrap_or_else(|| real::fcntl(fd, libc::F_NOTIFY, events))
}

/// `fanotify_mark`.
pub(super) fn fanotify_mark(
    fd: c_int,
    flags: c_uint,
    mask: u64,
    directory: c_int,
    path: *const c_char,
) -> c_int {
    const WHOLE: c_uint = libc::FAN_MARK_MOUNT | libc::FAN_MARK_FILESYSTEM;
    if flags & libc::FAN_MARK_ADD != 0 {
        let reach = match flags & WHOLE {
            0 => Reach::Directory,
            _ => Reach::All,
        };
        let follows_last = flags & libc::FAN_MARK_DONT_FOLLOW == 0;
        prepare(directory, path, follows_last, reach);
    }
    path::by_kernel(directory)
        .unwrap_or_else(|| real::fanotify_mark(fd, flags, mask, directory, path))
}

export! {
    inotify_add_watch => inotify_add_watch(fd: c_int, path: *const c_char, mask: u32) -> c_int;
    fanotify_mark => fanotify_mark(fd: c_int, flags: c_uint, mask: u64, directory: c_int, path: *const c_char) -> c_int;
}
