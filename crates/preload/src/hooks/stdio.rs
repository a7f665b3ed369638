//! Outer forms of what libc does inside itself: streams open, read and close past the hooks. A descriptor under a stream keeps its offset in the kernel; a number that libc closes
//! is forgotten.

use super::opened::arrived;
use super::table::{closing, closing_range};
use crate::names::{Answer, on_path};
use crate::{errno, forks, names, real, serve};
use libc::{FILE, c_char, c_int, c_void};

/// The number under a stream; -1 when there is none.
fn number(file: *mut FILE) -> c_int {
    if file.is_null() {
        return -1;
    }
    let error = errno::get();
    // SAFETY: an open stream, as the hooked function of libc demands of its caller.
    let fd = unsafe { libc::fileno(file) };
    errno::set(error);
    fd
}

fn opened(file: *mut FILE) -> *mut FILE {
    arrived(number(file));
    file
}

fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program gave a mode.
    let only_opens = unsafe { *mode.cast::<u8>() } == b'r';
    if only_opens && is_missing(path) {
        return std::ptr::null_mut();
    }
    names::before_path(path);
    opened(real::fopen(path, mode))
}

/// Whether there is no such file in a volume, with its errno: many are looked for in several places. What there is
/// the kernel opens, for libc reads it past the hooks.
fn is_missing(path: *const c_char) -> bool {
    let found = on_path(libc::AT_FDCWD, path, |way| {
        way.find(true).map(|_| Answer::Kernel)
    });
    found == Some(-1)
}

fn tmpfile() -> *mut FILE {
    opened(real::tmpfile())
}

fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // "a" sets O_APPEND past our fcntl: as if another process had.
    serve::share(fd);
    real::fdopen(fd, mode)
}

fn freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
    opened(closing(number(file), || real::freopen(path, mode, file)))
}

fn freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
    opened(closing(number(file), || real::freopen64(path, mode, file)))
}

fn fclose(file: *mut FILE) -> c_int {
    closing(number(file), || real::fclose(file))
}

fn fcloseall() -> c_int {
    closing_range(0, u32::MAX, || (real::fcloseall(), true))
}

fn popen(command: *const c_char, kind: *const c_char) -> *mut FILE {
    forks::share_descriptors();
    opened(real::popen(command, kind))
}

fn pclose(file: *mut FILE) -> c_int {
    closing(number(file), || real::pclose(file))
}

fn vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int {
    serve::publish(fd);
    real::vdprintf(fd, format, arguments)
}

fn vdprintf_checked(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    serve::publish(fd);
    real::__vdprintf_chk(fd, flag, format, arguments)
}

fn backtrace_symbols_fd(frames: *const *mut c_void, count: c_int, fd: c_int) {
    serve::publish(fd);
    real::backtrace_symbols_fd(frames, count, fd);
}

export! {
    fopen, fopen64 => fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    tmpfile, tmpfile64 => tmpfile() -> *mut FILE;
    fdopen => fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    freopen => freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE;
    freopen64 => freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE;
    fclose => fclose(file: *mut FILE) -> c_int;
    fcloseall => fcloseall() -> c_int;
    popen => popen(command: *const c_char, kind: *const c_char) -> *mut FILE;
    pclose => pclose(file: *mut FILE) -> c_int;
    vdprintf => vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    __vdprintf_chk => vdprintf_checked(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    backtrace_symbols_fd => backtrace_symbols_fd(frames: *const *mut c_void, count: c_int, fd: c_int) -> ();
}
