//! Calls on descriptors that the kernel answers: it must have the file open.

use super::arrivals::arrived;
use crate::descriptors::late_open;
use crate::files::forks;
use crate::serve;
use crate::serve::path::{by_kernel, by_kernel_at};
use crate::system::{errno, real};
use libc::{c_char, c_int, c_long, c_uint, c_void, dev_t, mode_t, off_t, size_t, ssize_t};

/// Calls on the descriptor that they name first.
macro_rules! passing {
    ($($name:ident($fd:ident: c_int $(, $argument:ident: $type:ty)*) -> $value:ty;)+) => {
        $(pub(super) fn $name($fd: c_int $(, $argument: $type)*) -> $value {
            match serve::try_open_in_kernel($fd) {
                Ok(()) => real::$name($fd $(, $argument)*),
                Err(errno) => {
                    errno::set(errno);
                    -1
                }
            }
        })+
    };
}

passing! {
    fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int;
    flock(fd: c_int, operation: c_int) -> c_int;
    fpathconf(fd: c_int, name: c_int) -> c_long;
    futimes(fd: c_int, times: *const libc::timeval) -> c_int;
    syncfs(fd: c_int) -> c_int;
    tee(fd: c_int, to: c_int, bytes: size_t, flags: c_uint) -> ssize_t;
    vmsplice(fd: c_int, parts: *const libc::iovec, count: size_t, flags: c_uint) -> ssize_t;
}

/// Calls on a path from a descriptor on.
macro_rules! passing_at {
    ($($name:ident($($argument:ident: $type:ty),*) from $directory:ident, $path:ident;)+) => {
        $(fn $name($($argument: $type),*) -> c_int {
            by_kernel_at($directory, $path).unwrap_or_else(|| real::$name($($argument),*))
        })+
    };
}

passing_at! {
    mkfifoat(directory: c_int, path: *const c_char, mode: mode_t) from directory, path;
    mknodat(directory: c_int, path: *const c_char, mode: mode_t, device: dev_t) from directory, path;
    __xmknodat(version: c_int, directory: c_int, path: *const c_char, mode: mode_t, device: *mut dev_t) from directory, path;
    futimesat(directory: c_int, path: *const c_char, times: *const libc::timeval) from directory, path;
    mount_setattr(directory: c_int, path: *const c_char, flags: c_uint, attributes: *mut c_void, bytes: size_t) from directory, path;
    name_to_handle_at(directory: c_int, path: *const c_char, handle: *mut c_void, mount: *mut c_int, flags: c_int) from directory, path;
}

fn open_tree(directory: c_int, path: *const c_char, flags: c_uint) -> c_int {
    by_kernel_at(directory, path)
        .unwrap_or_else(|| arrived(real::open_tree(directory, path, flags)))
}

fn fspick(directory: c_int, path: *const c_char, flags: c_uint) -> c_int {
    by_kernel_at(directory, path).unwrap_or_else(|| arrived(real::fspick(directory, path, flags)))
}

fn move_mount(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    by_kernel_at(from_directory, from)
        .or_else(|| by_kernel_at(to_directory, to))
        .unwrap_or_else(|| real::move_mount(from_directory, from, to_directory, to, flags))
}

/// Returns an error number; never sets `errno`.
pub(super) fn posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int {
    match serve::try_open_in_kernel(fd) {
        Ok(()) => real::posix_fallocate(fd, offset, bytes),
        Err(errno) => errno,
    }
}

/// Questions for terminals, which files are not.
macro_rules! of_terminals {
    ($($name:ident($fd:ident: c_int $(, $argument:ident: $type:ty)*) -> $value:ty, $refused:expr;)+) => {
        $(fn $name($fd: c_int $(, $argument: $type)*) -> $value {
            if serve::is_deferred($fd) {
$refused
} else {
real::$name($fd $(, $argument)*)
}
        })+
    };
}

fn no_terminal<T>(value: T) -> T {
    errno::set(libc::ENOTTY);
    value
}

of_terminals! {
    isatty(fd: c_int) -> c_int, no_terminal(0);
    tcgetattr(fd: c_int, into: *mut c_void) -> c_int, no_terminal(-1);
    ttyname(fd: c_int) -> *mut c_char, no_terminal(std::ptr::null_mut());
    ttyname_r(fd: c_int, into: *mut c_char, room: size_t) -> c_int, no_terminal(libc::ENOTTY);
}

fn epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut c_void) -> c_int {
    by_kernel(fd).unwrap_or_else(|| real::epoll_ctl(epoll, operation, fd, event))
}

/// Threads of libc make the calls.
macro_rules! asynchronous {
    ($($name:ident($($argument:ident: $type:ty),*);)+) => {
        $(fn $name($($argument: $type),*) -> c_int {
            late_open::end();
            serve::open_all_in_kernel();
            real::$name($($argument),*)
        })+
    };
}

asynchronous! {
    aio_read(control: *mut c_void);
    aio_write(control: *mut c_void);
    aio_fsync(operation: c_int, control: *mut c_void);
    lio_listio(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void);
}

/// Of liburing, which makes its system calls itself.
macro_rules! ring {
    ($($name:ident($($argument:ident: $type:ty),*);)+) => {
        $(fn $name($($argument: $type),*) -> c_int {
            late_open::end();
            forks::share_descriptors();
            real::$name($($argument),*)
        })+
    };
}

ring! {
    io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint);
    io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void);
    io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, bytes: size_t);
}

export! {
    io_uring_queue_init => io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int;
    io_uring_queue_init_params => io_uring_queue_init_params(entries: c_uint, ring: *mut c_void, parameters: *mut c_void) -> c_int;
    io_uring_queue_init_mem => io_uring_queue_init_mem(entries: c_uint, ring: *mut c_void, parameters: *mut c_void, memory: *mut c_void, bytes: size_t) -> c_int;
    flock => flock(fd: c_int, operation: c_int) -> c_int;
    fpathconf => fpathconf(fd: c_int, name: c_int) -> c_long;
    isatty => isatty(fd: c_int) -> c_int;
    ttyname => ttyname(fd: c_int) -> *mut c_char;
    ttyname_r => ttyname_r(fd: c_int, into: *mut c_char, room: size_t) -> c_int;
    tcgetattr => tcgetattr(fd: c_int, into: *mut c_void) -> c_int;
    futimes => futimes(fd: c_int, times: *const libc::timeval) -> c_int;
    syncfs => syncfs(fd: c_int) -> c_int;
    tee => tee(fd: c_int, to: c_int, bytes: size_t, flags: c_uint) -> ssize_t;
    vmsplice => vmsplice(fd: c_int, parts: *const libc::iovec, count: size_t, flags: c_uint) -> ssize_t;
    mkfifoat => mkfifoat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int;
    mknodat => mknodat(directory: c_int, path: *const c_char, mode: mode_t, device: dev_t) -> c_int;
    __xmknodat => __xmknodat(version: c_int, directory: c_int, path: *const c_char, mode: mode_t, device: *mut dev_t) -> c_int;
    futimesat => futimesat(directory: c_int, path: *const c_char, times: *const libc::timeval) -> c_int;
    open_tree => open_tree(directory: c_int, path: *const c_char, flags: c_uint) -> c_int;
    fspick => fspick(directory: c_int, path: *const c_char, flags: c_uint) -> c_int;
    move_mount => move_mount(from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_uint) -> c_int;
    mount_setattr => mount_setattr(directory: c_int, path: *const c_char, flags: c_uint, attributes: *mut c_void, bytes: size_t) -> c_int;
    epoll_ctl => epoll_ctl(epoll: c_int, operation: c_int, fd: c_int, event: *mut c_void) -> c_int;
    name_to_handle_at => name_to_handle_at(directory: c_int, path: *const c_char, handle: *mut c_void, mount: *mut c_int, flags: c_int) -> c_int;
    aio_read, aio_read64 => aio_read(control: *mut c_void) -> c_int;
    aio_write, aio_write64 => aio_write(control: *mut c_void) -> c_int;
    aio_fsync, aio_fsync64 => aio_fsync(operation: c_int, control: *mut c_void) -> c_int;
    lio_listio, lio_listio64 => lio_listio(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
}
