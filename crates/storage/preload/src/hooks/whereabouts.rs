//! What later paths and changes of names depend on: the working directory and the umask.

use crate::serve::{path, start};
use crate::system::real;
use crate::thread::{self, process};
use crate::volumes::identity;
use libc::{c_char, c_int, mode_t};

/// The working directory was changed, with this answer.
pub(super) fn directory_changed<T>(answer: T) -> T {
    start::note_directory_change();
    answer
}

fn chdir(path: *const c_char) -> c_int {
    path::before_path(path);
    directory_changed(real::chdir(path))
}

fn fchdir(fd: c_int) -> c_int {
    directory_changed(path::by_kernel(fd).unwrap_or_else(|| real::fchdir(fd)))
}

/// The umask was set, with this answer. A `vfork` child sets its own, in its parent's memory.
pub(super) fn umask_set<T>(mask: mode_t, answer: T) -> T {
    let thread = thread::current();
    if !thread.has(thread::VFORK) || !process::in_vfork_child(thread) {
        identity::note_umask(mask);
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
