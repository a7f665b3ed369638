//! Signs that a process closes or replaces descriptors past the library. They are looked for before a file is served for the
//! first time, and again after the program loaded a shared object.

mod code;
mod objects;

use crate::{bare_calls, deferred, errno, forks, serve, settings, table, thread};
use std::sync::atomic::{AtomicBool, Ordering};

/// Objects were loaded that nobody looked at.
static IS_DUE: AtomicBool = AtomicBool::new(true);

/// The program is about to load an object.
pub fn note_load() {
    IS_DUE.store(true, Ordering::Relaxed);
}

/// Look at new objects, if there are any. Outside of all calls.
#[inline(always)]
pub fn look_if_due() {
    if IS_DUE.load(Ordering::Relaxed) {
        look();
    }
}

#[cold]
fn look() {
    let thread = thread::current();
    // The dynamic linker's lock is not for handlers, nor for a child that a fork leaves half done.
    let is_inside = thread.has(thread::INSIDE | thread::FORKING | thread::VFORK);
    let is_handler = thread.handler_depth.load(Ordering::Relaxed) > 0;
    if is_inside || is_handler || !IS_DUE.swap(false, Ordering::Relaxed) {
        return;
    }
    let error = errno::get();
    if !bare_calls::may_happen() && objects::close_past_library() {
        found();
    }
    errno::set(error);
}

/// From now on the kernel opens all files and has all positions, and every call looks at what its number means.
#[cold]
pub fn found() {
    if settings::is_off() || bare_calls::expect() {
        return;
    }
    deferred::end();
    forks::share_descriptors();
    serve::open_all_in_kernel();
    table::distrust_all();
}
