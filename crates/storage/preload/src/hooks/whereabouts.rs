//! What later paths and changes of names depend on: the working directory and the umask.

use crate::names;
use crate::{process, real, thread};
use libc::{c_char, c_int, mode_t};

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
    directory_changed(names::by_kernel(fd).unwrap_or_else(|| real::fchdir(fd)))
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

export! {
    chdir => chdir(path: *const c_char) -> c_int;
    fchdir => fchdir(fd: c_int) -> c_int;
    umask => umask(mask: mode_t) -> mode_t;
}
