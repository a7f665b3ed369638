//! A lock that needs no libc, and that a fork child can take from its vanished owner.
//!
//! Held only by threads that are inside (see `thread`), so that no signal handler meets it held by
//! its own thread.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{SPINS, wait, wake_one};

const FREE: u32 = 0;
const HELD: u32 = 1;
const AWAITED: u32 = 2;

/// A mutual exclusion of threads of one process.
pub struct Lock(AtomicU32);

impl Lock {
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(FREE))
    }

    /// Take it.
    #[inline(always)]
    pub fn take(&self) {
        if self
            .0
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        for _ in 0..SPINS {
            if self
                .0
                .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        while self.0.swap(AWAITED, Ordering::Acquire) != FREE {
            wait(&self.0, AWAITED);
        }
    }

    /// Give it back.
    #[inline(always)]
    pub fn give(&self) {
        if self.0.swap(FREE, Ordering::Release) == AWAITED {
            wake_one(&self.0);
        }
    }

    /// Whether somebody holds it.
    pub fn is_held(&self) -> bool {
        self.0.load(Ordering::Relaxed) != FREE
    }

    /// In a fork child: whoever held it is not here.
    pub fn reset(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }

    /// Run `body` under the lock; given back also when `body` panics.
    #[inline(always)]
    pub fn with<T>(&self, body: impl FnOnce() -> T) -> T {
        struct Held<'a>(&'a Lock);
        impl Drop for Held<'_> {
            fn drop(&mut self) {
                self.0.give();
            }
        }
        self.take();
        let _held = Held(self);
        body()
    }
}
