//! What the engine does when a thread ends (it gives the thread's slot back), without memory from the
//! host's allocator: a thread's first call may come from a handler that interrupted `malloc`.

use super::allocator;
use super::words::{self, Ending};
use crate::system::thread_end;
use libc::{c_int, c_void};
use std::sync::atomic::Ordering;

/// Once per process, when the library is initialised; again before the first attach.
pub fn prepare() -> bool {
    thread_end::prepare(thread_ends)
}

/// Remember it for the calling thread. (The main thread of a process that exits runs none: the mount
/// finds its slots by the process's end.)
pub fn add(run: *mut c_void, object: *mut c_void) -> c_int {
    let endings = &words::current().endings;
    let next = endings.load(Ordering::Relaxed);
    endings.store(
        Box::into_raw(Box::new(Ending { run, object, next })),
        Ordering::Relaxed,
    );
    if thread_end::report() {
        0
    } else {
        libc::ENOMEM
    }
}

extern "C" fn thread_ends(_: *mut c_void) {
    let current = words::current();
    words::inside(|| {
        let mut ending = current
            .endings
            .swap(std::ptr::null_mut(), Ordering::Relaxed);
        while !ending.is_null() {
            // SAFETY: made by `add`, and taken out of the list; what the engine's runtime registered, which does not
            // unwind.
            unsafe {
                let Ending { run, object, next } = *Box::from_raw(ending);
                let run: extern "C" fn(*mut c_void) = std::mem::transmute(run);
                run(object);
                ending = next;
            }
        }
        allocator::leave(current);
    });
    current.end();
}
