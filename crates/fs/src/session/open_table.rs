//! This process's lock on its table of open inodes.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Lock and fill level of this process's table; private to the process.
#[derive(Default)]
pub(crate) struct Opens {
    lock: AtomicU32,
    pub(crate) used: AtomicU64,
}

impl Opens {
    pub(crate) fn locked<T>(&self, body: impl FnOnce() -> T) -> T {
        while self
            .lock
            .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            std::thread::yield_now();
        }
        let result = body();
        self.lock.store(0, Ordering::Release);
        result
    }

    /// The child has no table yet.
    pub(crate) fn reset_after_fork(&self) {
        self.lock.store(0, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
    }
}
