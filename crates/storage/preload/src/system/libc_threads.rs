//! What libc knows of the threads of this process.

use libc::c_int;

/// Whether this process has only one thread (libc's own word).
#[inline(always)]
pub fn alone() -> bool {
    unsafe extern "C" {
        static __libc_single_threaded: u8;
    }
    // SAFETY: libc keeps this byte for programs to read.
    unsafe { std::ptr::read_volatile(&raw const __libc_single_threaded) != 0 }
}

/// Run `body`, which calls libc, where the thread cannot be cancelled: what it holds must be given back.
pub fn uncancelled<T>(body: impl FnOnce() -> T) -> T {
    const DISABLE: c_int = 1;
    unsafe extern "C-unwind" {
        fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
    }
    let mut before = DISABLE;
    // SAFETY: the place is good for the call.
    unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
    let outcome = body();
    // SAFETY: as above; the former state is not asked for.
    unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
    outcome
}

/// Unwinds from here when the thread was cancelled.
#[inline(always)]
pub fn end_if_cancelled() {
    unsafe extern "C-unwind" {
        safe fn pthread_testcancel();
    }
    if !alone() {
        pthread_testcancel();
    }
}
