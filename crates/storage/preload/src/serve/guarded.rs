//! Copies between the caller's scattered buffers and one of ours: a bad address is an answer, not a
//! death. (The engine's own copies are guarded in `egeria_media::guard`.)

use super::descriptor;
use crate::system::errno;
use crate::system::guarded_copy::copy;
use crate::{signals, thread};
use libc::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

/// What a caller of ours points to; `None` for a bad address, or when the descriptor is not (known to be)
/// ours.
pub fn fetch<T: Copy>(fd: c_int, from: *const T) -> Option<T> {
    let mut value = None;
    let error = errno::get();
    descriptor::quietly(fd, |_| value = look(from));
    errno::set(error);
    value
}

/// Store where a caller of ours points to; false as with [`fetch`].
pub fn store<T: Copy>(fd: c_int, to: *mut T, value: T) -> bool {
    let mut there = false;
    let error = errno::get();
    descriptor::quietly(fd, |_| {
        // SAFETY: the program gave the address to be written; a bad one answers false.
        there = unsafe { copy(to.cast(), (&raw const value).cast(), size_of::<T>()) };
    });
    errno::set(error);
    there
}

/// Whether the calling thread can [`look`] at addresses that may be bad: faults come to us, and are
/// open in this thread.
pub fn can_look() -> bool {
    let thread = thread::current();
    if !signals::has_taken_over() {
        return false;
    }
    if thread.pin.load(Ordering::Relaxed).is_null() {
        signals::open_faults(thread);
    }
    true
}

/// What any caller points to; `None` for a bad address, which is a fault unless the thread [`can_look`].
pub fn look<T: Copy>(from: *const T) -> Option<T> {
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: a place of ours; filled when the copy went well.
    unsafe {
        copy(value.as_mut_ptr().cast(), from.cast(), size_of::<T>()).then(|| value.assume_init())
    }
}
