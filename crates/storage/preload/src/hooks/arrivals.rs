//! Calls that hand out numbers which are not files of ours: what was known of the number is over.
//! A second net: the first are the calls that close.

use crate::files::numbers;
use crate::system::{caller, errno, real};
use libc::{c_char, c_int, c_uint, c_void, pid_t, sigset_t};

/// A number that came from the kernel by another way than `open`.
pub(super) fn arrived(fd: c_int) -> c_int {
    if fd >= 0 && !crate::thread::current().has(crate::thread::INSIDE) {
        let error = errno::get();
        numbers::arrived(fd);
        errno::set(error);
    }
    fd
}

/// Two numbers, when the call succeeded.
fn arrived_pair(answer: c_int, pair: *const c_int) -> c_int {
    if answer == 0 {
        // The kernel filled two numbers in.
        let pair = caller::read(pair.cast::<[c_int; 2]>());
        pair.into_iter().flatten().for_each(|fd| _ = arrived(fd));
    }
    answer
}

fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    arrived(real::socket(domain, kind, protocol))
}

fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
    arrived_pair(real::socketpair(domain, kind, protocol, pair), pair)
}

fn accept(fd: c_int, address: *mut c_void, bytes: *mut c_uint) -> c_int {
    arrived(real::accept(fd, address, bytes))
}

fn accept4(fd: c_int, address: *mut c_void, bytes: *mut c_uint, flags: c_int) -> c_int {
    arrived(real::accept4(fd, address, bytes, flags))
}

fn pipe(pair: *mut c_int) -> c_int {
    arrived_pair(real::pipe(pair), pair)
}

fn pipe2(pair: *mut c_int, flags: c_int) -> c_int {
    arrived_pair(real::pipe2(pair, flags), pair)
}

fn eventfd(value: c_uint, flags: c_int) -> c_int {
    arrived(real::eventfd(value, flags))
}

fn epoll_create(size: c_int) -> c_int {
    arrived(real::epoll_create(size))
}

fn epoll_create1(flags: c_int) -> c_int {
    arrived(real::epoll_create1(flags))
}

fn memfd_create(name: *const c_char, flags: c_uint) -> c_int {
    arrived(real::memfd_create(name, flags))
}

fn timerfd_create(clock: c_int, flags: c_int) -> c_int {
    arrived(real::timerfd_create(clock, flags))
}

fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int {
    let made = real::signalfd(fd, mask, flags);
    if fd == -1 { arrived(made) } else { made }
}

fn inotify_init() -> c_int {
    arrived(real::inotify_init())
}

fn inotify_init1(flags: c_int) -> c_int {
    arrived(real::inotify_init1(flags))
}

fn fanotify_init(flags: c_uint, event_flags: c_uint) -> c_int {
    arrived(real::fanotify_init(flags, event_flags))
}

fn pidfd_open(process: pid_t, flags: c_uint) -> c_int {
    arrived(real::pidfd_open(process, flags))
}

fn pidfd_getfd(pidfd: c_int, fd: c_int, flags: c_uint) -> c_int {
    arrived(real::pidfd_getfd(pidfd, fd, flags))
}

fn posix_openpt(flags: c_int) -> c_int {
    arrived(real::posix_openpt(flags))
}

fn getpt() -> c_int {
    arrived(real::getpt())
}

fn openpty(
    one: *mut c_int,
    other: *mut c_int,
    name: *mut c_char,
    settings: *const c_void,
    size: *const c_void,
) -> c_int {
    let answer = real::openpty(one, other, name, settings, size);
    if answer == 0 {
        // Libc filled both in.
        for number in [one, other] {
            caller::read(number).map(arrived);
        }
    }
    answer
}

export! {
    socket, __socket => socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    socketpair => socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int;
    accept => accept(fd: c_int, address: *mut c_void, bytes: *mut c_uint) -> c_int;
    accept4 => accept4(fd: c_int, address: *mut c_void, bytes: *mut c_uint, flags: c_int) -> c_int;
    pipe, __pipe => pipe(pair: *mut c_int) -> c_int;
    pipe2 => pipe2(pair: *mut c_int, flags: c_int) -> c_int;
    eventfd => eventfd(value: c_uint, flags: c_int) -> c_int;
    epoll_create => epoll_create(size: c_int) -> c_int;
    epoll_create1 => epoll_create1(flags: c_int) -> c_int;
    memfd_create => memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    timerfd_create => timerfd_create(clock: c_int, flags: c_int) -> c_int;
    signalfd => signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int;
    inotify_init => inotify_init() -> c_int;
    inotify_init1 => inotify_init1(flags: c_int) -> c_int;
    fanotify_init => fanotify_init(flags: c_uint, event_flags: c_uint) -> c_int;
    pidfd_open => pidfd_open(process: pid_t, flags: c_uint) -> c_int;
    pidfd_getfd => pidfd_getfd(pidfd: c_int, fd: c_int, flags: c_uint) -> c_int;
    posix_openpt => posix_openpt(flags: c_int) -> c_int;
    getpt => getpt() -> c_int;
    openpty => openpty(one: *mut c_int, other: *mut c_int, name: *mut c_char, settings: *const c_void, size: *const c_void) -> c_int;
}
