//! Signs that a process closes or replaces descriptors past the library. They are looked for before a file is served for the
//! first time, and again after the program loaded a shared object.

use super::objects;
use crate::system::errno;
use crate::thread;
use std::sync::atomic::{AtomicBool, Ordering};

/// Objects were loaded that were not looked at yet.
static IS_DUE: AtomicBool = AtomicBool::new(true);

/// The program is about to load an object.
pub fn note_load() {
    IS_DUE.store(true, Ordering::Relaxed);
}

/// Whether there are objects to look at.
#[inline(always)]
pub fn is_due() -> bool {
    IS_DUE.load(Ordering::Relaxed)
}

/// Whether one of the new objects has a sign, if `are_wanted` says that it matters. Outside of all calls.
#[cold]
pub fn are_new(are_wanted: impl FnOnce() -> bool) -> bool {
    let thread = thread::current();
    // The dynamic linker's lock is not for handlers, nor for a child that a fork leaves half done.
    let is_inside = thread.has(thread::INSIDE | thread::FORKING | thread::VFORK);
    let is_handler = thread.handler_depth.load(Ordering::Relaxed) > 0;
    let can_look = !is_inside && !is_handler && are_wanted();
    if !can_look || !IS_DUE.swap(false, Ordering::Relaxed) {
        return false;
    }
    let error = errno::get();
    let are_new = objects::close_past_library();
    errno::set(error);
    are_new
}
