//! `open` and its kin: numbers this process opens itself.

use crate::files::{direct_open, numbers};
use crate::system::{errno, libc_threads, raw, real};
use crate::thread;
use libc::{c_char, c_int, c_void, mode_t};

/// A number from an open with these flags; `-1` is left alone.
pub(super) fn opened(fd: c_int, flags: c_int) -> c_int {
    if fd < 0 || thread::is_inside() {
        return fd;
    }
    let error = errno::get();
    if flags & (libc::O_PATH | libc::O_DIRECTORY) == 0 {
        numbers::opened(fd);
    } else {
        numbers::arrived(fd);
    }
    errno::set(error);
    fd
}

/// A cancellation point, as every open of libc is but `opendir`. `None`: the kernel is to do it.
pub(super) fn open_directly(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> Option<c_int> {
    // Nothing is held yet.
    libc_threads::end_if_cancelled();
    direct_open::open(directory, path, flags, mode)
}

/// The engine's own: no cancellation point, for what it holds would stay taken.
fn open_inside(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    errno::from_kernel(raw::openat(directory, path, flags, mode)) as c_int
}

fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if thread::is_inside() {
        return open_inside(libc::AT_FDCWD, path, flags, mode);
    }
    open_directly(libc::AT_FDCWD, path, flags, mode)
        .unwrap_or_else(|| opened(real::open(path, flags, mode), flags))
}

fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    open(path, flags | libc::O_LARGEFILE, mode)
}

/// `openat`.
pub(super) fn openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    if thread::is_inside() {
        return open_inside(directory, path, flags, mode);
    }
    open_directly(directory, path, flags, mode)
        .unwrap_or_else(|| opened(real::openat(directory, path, flags, mode), flags))
}

fn creat(path: *const c_char, mode: mode_t) -> c_int {
    let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
    open_directly(libc::AT_FDCWD, path, flags, mode)
        .unwrap_or_else(|| opened(real::creat(path, mode), libc::O_CREAT))
}

fn open_2(path: *const c_char, flags: c_int) -> c_int {
    let wants_mode = flags & (libc::O_CREAT | libc::O_TMPFILE) != 0;
    if wants_mode {
        opened(real::__open_2(path, flags), flags)
    } else {
        open(path, flags, 0)
    }
}

fn openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    let wants_mode = flags & (libc::O_CREAT | libc::O_TMPFILE) != 0;
    if wants_mode {
        opened(real::__openat_2(directory, path, flags), flags)
    } else {
        openat(directory, path, flags, 0)
    }
}

fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int {
    opened(real::open_by_handle_at(mount, handle, flags), flags)
}

fn shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    opened(real::shm_open(name, flags, mode), flags)
}

/// The system call, for `syscall`.
pub(super) fn opened_by_number(fd: isize, flags: usize) -> isize {
    opened(fd as c_int, flags as c_int);
    fd
}

export! {
    open, __open => open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    open64, __open64 => open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    openat, openat64 => openat(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int;
    creat, creat64 => creat(path: *const c_char, mode: mode_t) -> c_int;
    __open_2, __open64_2 => open_2(path: *const c_char, flags: c_int) -> c_int;
    __openat_2, __openat64_2 => openat_2(directory: c_int, path: *const c_char, flags: c_int) -> c_int;
    open_by_handle_at => open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int;
    shm_open => shm_open(name: *const c_char, flags: c_int, mode: mode_t) -> c_int;
}
