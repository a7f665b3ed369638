//! Values that are touched only under a lock of their own.

use super::lock::Lock;
use std::cell::UnsafeCell;

/// A value and its lock.
pub struct Locked<T> {
    lock: Lock,
    value: UnsafeCell<T>,
}

// SAFETY: the value is touched under the lock, by one thread at a time.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    pub const fn new(value: T) -> Locked<T> {
        Locked {
            lock: Lock::new(),
            value: UnsafeCell::new(value),
        }
    }

    /// Run `body` under the lock; given back also when `body` panics. Not from within another `body`.
    #[inline(always)]
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: under the lock, which is not taken twice: nobody else has a reference.
        self.lock.with(|| body(unsafe { &mut *self.value.get() }))
    }

    /// Take the lock, to let it go with [`Locked::give`].
    pub fn take(&self) {
        self.lock.take();
    }

    pub fn give(&self) {
        self.lock.give();
    }

    /// In a fork child: whoever held the lock is not here.
    pub fn reset(&self) {
        self.lock.reset();
    }

    /// The value, whoever holds the lock.
    ///
    /// # Safety
    /// Nobody changes the value meanwhile.
    pub unsafe fn peek(&self) -> &T {
        // SAFETY: not changed, as the contract says.
        unsafe { &*self.value.get() }
    }
}
