//! Calls that sleep, and tell a handler from a stop (see `signals::stops`).

use crate::description::record::may_any_be_deferred;
use crate::serve::guarded::{can_look, look};
use crate::signals::before_sleep;
use crate::system::{errno, raw, real};
use crate::{serve, thread};
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

/// Calls on descriptors in a list or in sets.
macro_rules! watching {
    ($($name:ident($first:ident: $first_type:ty, $second:ident: $second_type:ty $(, $argument:ident: $type:ty)*) by $opens:ident;)+) => {
        $(fn $name($first: $first_type, $second: $second_type $(, $argument: $type)*) -> c_int {
            $opens!($first, $second $(, $argument)*);
            before_sleep();
            real::$name($first, $second $(, $argument)*)
        })+
    };
}

macro_rules! of_list {
    ($list:expr, $count:expr $(, $rest:expr)*) => {
        open_of_list($list.cast(), $count)
    };
}

macro_rules! of_sets {
    ($count:expr, $read:expr, $write:expr, $other:expr $(, $rest:expr)*) => {
        open_of_sets($count, [$read, $write, $other])
    };
}

/// The kernel must have the files open that it is asked about.
pub(super) fn open_of_list(list: *const libc::pollfd, count: u64) {
    if !may_any_be_deferred() || !can_look() {
        return;
    }
    let entries = (0..usize::try_from(count).unwrap_or(usize::MAX))
        .map_while(|index| look(list.wrapping_add(index)));
    entries.for_each(|entry| serve::open_in_kernel(entry.fd));
}

pub(super) fn open_of_sets(count: c_int, sets: [*mut c_void; 3]) {
    const BITS: c_int = u64::BITS as c_int;
    if !may_any_be_deferred() || !can_look() {
        return;
    }
    for set in sets.into_iter().filter(|set| !set.is_null()) {
        let word_of = |fd: c_int| look(set.cast::<u64>().wrapping_add((fd / BITS) as usize));
        for fd in 0..count.min(libc::FD_SETSIZE as c_int) {
            match word_of(fd) {
                Some(word) if word >> (fd % BITS) & 1 != 0 => serve::open_in_kernel(fd),
                Some(_) => {}
                None => break,
            }
        }
    }
}

watching! {
    poll(list: *mut c_void, count: u64, timeout_ms: c_int) by of_list;
    __poll_chk(list: *mut c_void, count: u64, timeout_ms: c_int, room: size_t) by of_list;
    ppoll(list: *mut c_void, count: u64, timeout: *const timespec, mask: *const c_void) by of_list;
    __ppoll_chk(list: *mut c_void, count: u64, timeout: *const timespec, mask: *const c_void, room: size_t) by of_list;
    select(count: c_int, read: *mut c_void, write: *mut c_void, other: *mut c_void, timeout: *mut c_void) by of_sets;
    pselect(count: c_int, read: *mut c_void, write: *mut c_void, other: *mut c_void, timeout: *const timespec, mask: *const c_void) by of_sets;
}

sleeping! {
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
