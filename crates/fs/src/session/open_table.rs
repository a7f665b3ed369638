//! This process's lock on its table of open inodes.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Looks at the lock before the CPU is given up: it is held for some tens of nanoseconds, unless the table grows.
const SPINS: u32 = 100;

/// Lock and fill level of this process's table; private to the process. On cache lines of its own, for every open of any
/// thread writes it.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Opens {
    lock: AtomicU32,
    pub(crate) used: AtomicU64,
}

impl Opens {
    pub(crate) fn locked<T>(&self, body: impl FnOnce() -> T) -> T {
        let mut spins = 0;
        while self
            .lock
            .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            spins += 1;
            match spins < SPINS {
                true => std::hint::spin_loop(),
                false => std::thread::yield_now(),
            }
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
