//! Source of atomics and waiting for the modules that `crates/verify/loom` checks; under test they are loom's.

use rustix::thread::futex;
pub(crate) use std::sync::atomic;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// How often a read is repeated when its data changed during the read.
pub(crate) const TRIES: usize = 4;

/// Sleep while a word, which other processes may share, has this value. Wakes after `limit` at the latest, or
/// spuriously.
pub(crate) fn sleep_until_changed(word: &AtomicU32, seen: u32, limit: Duration) {
    let limit = futex::Timespec {
        tv_sec: limit.as_secs() as i64,
        tv_nsec: limit.subsec_nanos().into(),
    };
    // Woken, changed or timed out: the caller checks again.
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&limit));
}

/// Wake all threads of all processes that sleep on the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}
