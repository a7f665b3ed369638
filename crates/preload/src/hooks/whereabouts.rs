//! What later paths and changes of names depend on: the working directory, the umask, and watches.

use crate::names::{self, Answer, Way, on_descriptor, on_path};
use crate::{process, real, serve, thread};
use egeria_fs::PathStop;
use libc::{c_char, c_int, c_uint, mode_t};

/// The working directory was changed, with this answer.
pub(super) fn directory_changed<T>(answer: T) -> T {
    names::note_directory_change();
    answer
}

fn chdir(path: *const c_char) -> c_int {
    names::before_path(path);
    directory_changed(real::chdir(path))
}

fn fchdir(fd: c_int) -> c_int {
    serve::open_in_kernel(fd);
    directory_changed(real::fchdir(fd))
}

/// The umask was set, with this answer. A `vfork` child sets its own, in its parent's memory.
pub(super) fn umask_set<T>(mask: mode_t, answer: T) -> T {
    let thread = thread::current();
    if !thread.has(thread::VFORK) || !process::in_vfork_child(thread) {
        names::note_umask(mask);
    }
    answer
}

fn umask(mask: mode_t) -> mode_t {
    umask_set(mask, real::umask(mask))
}

/// The kernel raises events for what it does itself.
fn watch(way: &Way<'_>) -> Result<Answer, PathStop> {
    // Without a place in the session changes stay unseen, as those of programs that use the Rust API do.
    let _ = way.volume.watch_names();
    Ok(Answer::Kernel)
}

fn inotify_add_watch(fd: c_int, path: *const c_char, mask: u32) -> c_int {
    on_path(libc::AT_FDCWD, path, watch);
    real::inotify_add_watch(fd, path, mask)
}

fn fanotify_mark(
    fd: c_int,
    flags: c_uint,
    mask: u64,
    directory: c_int,
    path: *const c_char,
) -> c_int {
    match path.is_null() {
        true => on_descriptor(directory, watch),
        false => on_path(directory, path, watch),
    };
    real::fanotify_mark(fd, flags, mask, directory, path)
}

export! {
    inotify_add_watch => inotify_add_watch(fd: c_int, path: *const c_char, mask: u32) -> c_int;
    fanotify_mark => fanotify_mark(fd: c_int, flags: c_uint, mask: u64, directory: c_int, path: *const c_char) -> c_int;
    chdir => chdir(path: *const c_char) -> c_int;
    fchdir => fchdir(fd: c_int) -> c_int;
    umask => umask(mask: mode_t) -> mode_t;
}
