//! A lock in shared memory that survives its owner: glibc's robust, process-shared mutex, taken into
//! use from zeroed memory.

use std::cell::UnsafeCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// How a lock was got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// In order.
    Clean,
    /// The owner died holding it: put right what the lock protects, then `make_consistent`.
    OwnerDied,
}

/// A robust mutex. Zeroed memory is an unlocked one.
#[repr(C, align(8))]
pub struct RobustMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: pthread mutexes are made for use from many threads; process-shared ones from many processes.
unsafe impl Sync for RobustMutex {}
// SAFETY: as above; the memory never moves while mapped.
unsafe impl Send for RobustMutex {}

/// Byte offset of glibc's `__kind` in `pthread_mutex_t` on 64-bit.
const KIND_AT: usize = 16;

/// The `__kind` that glibc gives a robust, process-shared mutex; asked of glibc itself, once.
fn robust_kind() -> i32 {
    static KIND: OnceLock<i32> = OnceLock::new();
    *KIND.get_or_init(|| {
        // SAFETY: attribute and mutex are local, initialised before use and destroyed after.
        unsafe {
            let mut attributes = std::mem::zeroed();
            let mut mutex: libc::pthread_mutex_t = std::mem::zeroed();
            libc::pthread_mutexattr_init(&mut attributes);
            libc::pthread_mutexattr_setpshared(&mut attributes, libc::PTHREAD_PROCESS_SHARED);
            libc::pthread_mutexattr_setrobust(&mut attributes, libc::PTHREAD_MUTEX_ROBUST);
            libc::pthread_mutex_init(&mut mutex, &attributes);
            let kind = *(&raw const mutex).cast::<u8>().add(KIND_AT).cast::<i32>();
            libc::pthread_mutex_destroy(&mut mutex);
            libc::pthread_mutexattr_destroy(&mut attributes);
            kind
        }
    })
}

/// Ask glibc once, outside of any hot path and any signal handler.
pub fn prepare() {
    robust_kind();
}

impl RobustMutex {
    /// Give zeroed memory its kind. Everyone stores the same constant before the first lock, so the
    /// race between two of them changes nothing.
    #[inline]
    fn set_kind(&self) {
        // SAFETY: the offset lies inside the mutex and is aligned; the access is atomic.
        let kind = unsafe { &*self.0.get().cast::<u8>().add(KIND_AT).cast::<AtomicI32>() };
        if kind.load(Ordering::Relaxed) == 0 {
            kind.store(robust_kind(), Ordering::Release);
        }
    }

    /// Lock, waiting; `None` when the mutex cannot be used any more.
    #[inline]
    pub fn lock(&self) -> Option<Acquired> {
        self.set_kind();
        // SAFETY: initialised shared mutex; robust, so a dead owner is reported, not waited for.
        match unsafe { libc::pthread_mutex_lock(self.0.get()) } {
            0 => Some(Acquired::Clean),
            libc::EOWNERDEAD => Some(Acquired::OwnerDied),
            _ => None,
        }
    }

    /// Lock if free; `None` when it is not.
    pub fn try_lock(&self) -> Option<Acquired> {
        self.set_kind();
        // SAFETY: as in `lock`.
        match unsafe { libc::pthread_mutex_trylock(self.0.get()) } {
            0 => Some(Acquired::Clean),
            libc::EOWNERDEAD => Some(Acquired::OwnerDied),
            _ => None,
        }
    }

    /// What the lock protects is whole again.
    pub fn make_consistent(&self) {
        // SAFETY: called by the holder after `OwnerDied`.
        unsafe { libc::pthread_mutex_consistent(self.0.get()) };
    }

    /// Unlock; only the holder may.
    #[inline]
    pub fn unlock(&self) {
        // SAFETY: the caller holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    /// Run under the lock; `repair` runs first when the owner died.
    pub fn with<T>(&self, repair: impl FnOnce(), body: impl FnOnce() -> T) -> T {
        if self.lock() == Some(Acquired::OwnerDied) {
            repair();
            self.make_consistent();
        }
        let result = body();
        self.unlock();
        result
    }
}
