//! The calling thread's `errno`.

use libc::c_int;

/// `errno` now.
#[inline(always)]
pub fn get() -> c_int {
    // SAFETY: libc gives each thread a valid location.
    unsafe { *libc::__errno_location() }
}

/// Set `errno`.
#[inline(always)]
pub fn set(value: c_int) {
    // SAFETY: libc keeps the calling thread's errno at this address.
    unsafe { *libc::__errno_location() = value }
}

/// What libc would return for the kernel's answer.
#[inline(always)]
pub fn from_kernel(answer: isize) -> isize {
    if (-4095..0).contains(&answer) {
        set(-answer as c_int);
        return -1;
    }
    answer
}
