//! Where the modules that `crates/verify/loom` checks take their atomics and waiting from: there, it is loom's.

use rustix::thread::futex;
pub(crate) use std::sync::atomic;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// How often what changed while it was looked at is looked at again.
pub(crate) const TRIES: usize = 4;

/// Sleep while a word that other processes may have, too, has this value; at most so long, or for no reason.
pub(crate) fn sleep_until_changed(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit = futex::Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // Woken, changed or late: the caller looks again.
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&limit));
}

/// Wake all that sleep on the word, of whatever process.
pub(crate) fn wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}
