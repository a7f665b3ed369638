//! Outer forms of what libc does inside itself. Streams over files that the kernel has not opened use the hooks (`file_stream`).
//! Others open, read and close past them: a descriptor under such a stream keeps its offset in the kernel, and a number that
//! libc closes is forgotten.

use super::arrivals::arrived;
use super::dup_close::{closing, fcntl};
use super::file_stream::{self, Mode};
use crate::files::{forks, numbers};
use crate::serve::{self, path};
use crate::system::{errno, libc_streams, real};
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
    let fd = number(file);
    if libc_streams::is_served(file) {
        // All calls come through the hooks.
        numbers::opened(fd)
    } else {
        _ = arrived(fd)
    }
    file
}

fn fopen(path: *const c_char, mode: *const c_char) -> *mut FILE {
    if let Some(stream) = file_stream::open(path, mode) {
        return stream;
    }
    path::before_path(path);
    opened(real::fopen(path, mode))
}

fn tmpfile() -> *mut FILE {
    opened(real::tmpfile())
}

fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if serve::is_deferred(fd)
        && let Some(known) = Mode::of(mode)
        && known.fits(fcntl(fd, libc::F_GETFL, 0))
    {
        return file_stream::over(fd, known, mode);
    }
    // "a" sets O_APPEND past our fcntl: as if another process had.
    serve::share(fd);
    real::fdopen(fd, mode)
}

/// Libc writes what a stream still has, and opens a number anew, past the hooks.
fn before_reopening(file: *mut FILE) {
    serve::publish(number(file));
}

fn freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
    before_reopening(file);
    opened(closing(number(file), || real::freopen(path, mode, file)))
}

fn freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE {
    before_reopening(file);
    opened(closing(number(file), || real::freopen64(path, mode, file)))
}

fn fclose(file: *mut FILE) -> c_int {
    if libc_streams::is_served(file) {
        // It writes what it still has, and then closes the number by a function of ours.
        return real::fclose(file);
    }
    closing(number(file), || real::fclose(file))
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
    fopen, fopen64, _IO_fopen => fopen(path: *const c_char, mode: *const c_char) -> *mut FILE;
    tmpfile, tmpfile64 => tmpfile() -> *mut FILE;
    fdopen, _IO_fdopen => fdopen(fd: c_int, mode: *const c_char) -> *mut FILE;
    freopen => freopen(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE;
    freopen64 => freopen64(path: *const c_char, mode: *const c_char, file: *mut FILE) -> *mut FILE;
    fclose, _IO_fclose => fclose(file: *mut FILE) -> c_int;
    popen => popen(command: *const c_char, kind: *const c_char) -> *mut FILE;
    pclose => pclose(file: *mut FILE) -> c_int;
    vdprintf => vdprintf(fd: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    __vdprintf_chk => vdprintf_checked(fd: c_int, flag: c_int, format: *const c_char, arguments: *mut c_void) -> c_int;
    backtrace_symbols_fd => backtrace_symbols_fd(frames: *const *mut c_void, count: c_int, fd: c_int) -> ();
}
