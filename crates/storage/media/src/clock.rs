//! The kernel's clocks, read without rustix: under valgrind it looks for the kernel's fast clock where none is mapped.

use std::io;

use libc::{clockid_t, timespec};

/// The time on a clock.
///
/// # Errors
/// `EINVAL` for a clock that does not exist, or no longer exists.
#[inline]
pub fn time(clock: clockid_t) -> io::Result<timespec> {
    let mut time = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the given place.
    match unsafe { libc::clock_gettime(clock, &mut time) } {
        0 => Ok(time),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The time on a clock that every kernel has, ns.
#[inline(always)]
pub fn now_ns(clock: clockid_t) -> i64 {
    let mut now = timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the given place.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec
        .wrapping_mul(1_000_000_000)
        .wrapping_add(now.tv_nsec)
}
