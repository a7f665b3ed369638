//! What libc knows of the threads of this process.

/// Whether this process has only one thread (libc's own word).
#[inline(always)]
pub fn alone() -> bool {
    unsafe extern "C" {
        static __libc_single_threaded: u8;
    }
    // SAFETY: libc keeps this byte for programs to read.
    unsafe { std::ptr::read_volatile(&raw const __libc_single_threaded) != 0 }
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
