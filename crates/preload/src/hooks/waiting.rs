//! Calls that sleep, and tell a handler from a stop (see `signals::stops`).

use crate::signals::before_sleep;
use crate::{errno, raw, real, thread};
use libc::{c_int, c_uint, c_void, size_t, ssize_t, timespec};

/// Calls that go on into libc.
macro_rules! sleeping {
    ($($name:ident($($argument:ident: $type:ty),*) -> $value:ty;)+) => {
        $(fn $name($($argument: $type),*) -> $value {
            before_sleep();
            real::$name($($argument),*)
        })+
    };
}

sleeping! {
    poll(list: *mut c_void, count: u64, timeout_ms: c_int) -> c_int;
    __poll_chk(list: *mut c_void, count: u64, timeout_ms: c_int, room: size_t) -> c_int;
    ppoll(list: *mut c_void, count: u64, timeout: *const timespec, mask: *const c_void) -> c_int;
    __ppoll_chk(list: *mut c_void, count: u64, timeout: *const timespec, mask: *const c_void, room: size_t) -> c_int;
    select(count: c_int, read: *mut c_void, write: *mut c_void, other: *mut c_void, timeout: *mut c_void) -> c_int;
    pselect(count: c_int, read: *mut c_void, write: *mut c_void, other: *mut c_void, timeout: *const timespec, mask: *const c_void) -> c_int;
    pause() -> c_int;
    sigsuspend(mask: *const c_void) -> c_int;
    sleep(seconds: c_uint) -> c_uint;
    usleep(microseconds: c_uint) -> c_int;
    thrd_sleep(time: *const timespec, left: *mut timespec) -> c_int;
    sem_timedwait(semaphore: *mut c_void, time: *const timespec) -> c_int;
    sem_clockwait(semaphore: *mut c_void, clock: c_int, time: *const timespec) -> c_int;
    msgsnd(queue: c_int, message: *const c_void, bytes: size_t, flags: c_int) -> c_int;
    msgrcv(queue: c_int, message: *mut c_void, bytes: size_t, kind: i64, flags: c_int) -> ssize_t;
}

/// The engine sleeps without becoming a cancellation point.
fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    if thread::current().has(thread::INSIDE) {
        return errno::from_kernel(raw::nanosleep(time, left)) as c_int;
    }
    before_sleep();
    real::nanosleep(time, left)
}

fn clock_nanosleep(
    clock: c_int,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    if thread::current().has(thread::INSIDE) {
        return -raw::clock_nanosleep(clock, flags, time, left) as c_int;
    }
    before_sleep();
    real::clock_nanosleep(clock, flags, time, left)
}

export! {
    poll, __poll => poll(list: *mut c_void, count: u64, timeout_ms: c_int) -> c_int;
    __poll_chk => __poll_chk(list: *mut c_void, count: u64, timeout_ms: c_int, room: size_t) -> c_int;
    ppoll => ppoll(list: *mut c_void, count: u64, timeout: *const timespec, mask: *const c_void) -> c_int;
    __ppoll_chk => __ppoll_chk(list: *mut c_void, count: u64, timeout: *const timespec, mask: *const c_void, room: size_t) -> c_int;
    select, __select => select(count: c_int, read: *mut c_void, write: *mut c_void, other: *mut c_void, timeout: *mut c_void) -> c_int;
    pselect => pselect(count: c_int, read: *mut c_void, write: *mut c_void, other: *mut c_void, timeout: *const timespec, mask: *const c_void) -> c_int;
    pause => pause() -> c_int;
    sigsuspend, __sigsuspend => sigsuspend(mask: *const c_void) -> c_int;
    sleep => sleep(seconds: c_uint) -> c_uint;
    usleep => usleep(microseconds: c_uint) -> c_int;
    thrd_sleep => thrd_sleep(time: *const timespec, left: *mut timespec) -> c_int;
    sem_timedwait => sem_timedwait(semaphore: *mut c_void, time: *const timespec) -> c_int;
    sem_clockwait => sem_clockwait(semaphore: *mut c_void, clock: c_int, time: *const timespec) -> c_int;
    msgsnd => msgsnd(queue: c_int, message: *const c_void, bytes: size_t, flags: c_int) -> c_int;
    msgrcv => msgrcv(queue: c_int, message: *mut c_void, bytes: size_t, kind: i64, flags: c_int) -> ssize_t;
    nanosleep, __nanosleep => nanosleep(time: *const timespec, left: *mut timespec) -> c_int;
    clock_nanosleep => clock_nanosleep(clock: c_int, flags: c_int, time: *const timespec, left: *mut timespec) -> c_int;
}
