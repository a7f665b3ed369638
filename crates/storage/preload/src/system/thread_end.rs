//! Having libc call us when a thread ends.

use libc::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

const NONE: u32 = u32::MAX;
static KEY: AtomicU32 = AtomicU32::new(NONE);

/// Have `run` called at the ends of threads that [`report`] theirs. Once per process, early: values of the first keys need
/// no memory of libc's.
pub fn prepare(run: unsafe extern "C" fn(*mut c_void)) -> bool {
    if KEY.load(Ordering::Relaxed) != NONE {
        return true;
    }
    let mut key = 0;
    // SAFETY: a place for the key, and a function of the right kind.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(run)) } == 0;
    if made {
        KEY.store(key, Ordering::Relaxed);
    }
    made
}

/// The calling thread's end is to be reported; false when it cannot be.
pub fn report() -> bool {
    const ANY: *const c_void = (&raw const KEY).cast();
    let key = KEY.load(Ordering::Relaxed);
    // SAFETY: the key was made; any value but null has the function called.
    key != NONE && unsafe { libc::pthread_setspecific(key, ANY) } == 0 as c_int
}
