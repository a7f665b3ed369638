//! A lock in shared memory that survives its owner: glibc's robust, process-shared mutex, usable from zeroed memory.

use crate::types::{Errno, Outcome};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

/// How often a waiter checks the holder before it sleeps.
const LOOKS: u32 = 100;
/// Pauses of the CPU before each look.
const PAUSES: u32 = 4;
/// How long a waiter sleeps before it checks again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

unsafe extern "C" {
    /// glibc 2.30: like `pthread_mutex_timedlock`, with a clock that cannot be set.
    fn pthread_mutex_clocklock(
        mutex: *mut libc::pthread_mutex_t,
        clock: libc::clockid_t,
        until: *const libc::timespec,
    ) -> i32;
}

/// How a lock was got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acquired {
    Clean,
    /// The owner died holding it: recover what the lock protects, then call `make_consistent`.
    OwnerDied,
}

/// Why a lock was not got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockFailure {
    /// Another thread holds it.
    Busy,
    /// The mutex cannot be used any more.
    Unusable,
}

/// A robust mutex. Zeroed memory is an unlocked one.
#[repr(C, align(8))]
pub struct RobustMutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: pthread mutexes are made for use from many threads; process-shared ones from many processes.
unsafe impl Sync for RobustMutex {}
// SAFETY: it is not bound to the thread that made it, and never moves while it is mapped.
unsafe impl Send for RobustMutex {}

impl RobustMutex {
    pub(crate) fn new() -> RobustMutex {
        RobustMutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }
}

/// Bit of glibc's `__lock`, the mutex's first word, that the kernel sets when the owner dies (`FUTEX_OWNER_DIED`).
const OWNER_DIED: u32 = 1 << 30;

/// Bits of that word that name the thread that holds the lock (`FUTEX_TID_MASK`).
const HOLDER: u32 = OWNER_DIED - 1;

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
    /// Give zeroed memory its kind. All threads store the same constant before the first lock, so a race between them
    /// is harmless.
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
        match self.try_lock() {
            Ok(acquired) => Some(acquired),
            Err(LockFailure::Busy) => self.wait(),
            Err(LockFailure::Unusable) => None,
        }
    }

    /// Wait for the lock, checking again at intervals. A waiter may be killed between its wake-up and taking the lock.
    /// If a third thread took the lock in between, the wake-up is lost, and the mutex no longer records that others
    /// wait.
    #[cold]
    fn wait(&self) -> Option<Acquired> {
        loop {
            match self.lock_within(LOOK_AGAIN) {
                Ok(acquired) => return Some(acquired),
                Err(LockFailure::Busy) => {}
                Err(LockFailure::Unusable) => return None,
            }
        }
    }

    /// Lock if it comes free within a few microseconds: most holders unlock sooner than a sleeping thread is woken.
    #[cold]
    pub fn lock_soon(&self) -> Option<Acquired> {
        for _ in 0..LOOKS {
            for _ in 0..PAUSES {
                std::hint::spin_loop();
            }
            if self.holder() == 0
                && let Ok(acquired) = self.try_lock()
            {
                return Some(acquired);
            }
        }
        None
    }

    /// Lock, waiting no longer than `limit`.
    ///
    /// # Errors
    /// [`LockFailure::Busy`] on a timeout.
    #[cold]
    pub fn lock_within(&self, limit: Duration) -> Result<Acquired, LockFailure> {
        self.set_kind();
        let now = egeria_media::clock::time(libc::CLOCK_MONOTONIC);
        let mut until = now.map_err(|_| LockFailure::Busy)?;
        until.tv_sec += limit.as_secs() as i64;
        until.tv_nsec += i64::from(limit.subsec_nanos());
        if until.tv_nsec >= 1_000_000_000 {
            until.tv_sec += 1;
            until.tv_nsec -= 1_000_000_000;
        }
        // SAFETY: an initialised mutex and a whole time; robust, so a dead owner is reported.
        acquired(unsafe { pthread_mutex_clocklock(self.0.get(), libc::CLOCK_MONOTONIC, &until) })
    }

    /// Lock if free.
    ///
    /// # Errors
    /// [`LockFailure::Busy`] when another thread holds it.
    #[inline]
    pub fn try_lock(&self) -> Result<Acquired, LockFailure> {
        self.set_kind();
        // SAFETY: initialised shared mutex; robust, so a dead owner is reported, not waited for.
        acquired(unsafe { libc::pthread_mutex_trylock(self.0.get()) })
    }

    /// Whether the last owner died and what the lock protects has not been recovered yet.
    #[inline]
    pub fn is_owner_dead(&self) -> bool {
        self.word().load(Ordering::Acquire) & OWNER_DIED != 0
    }

    /// Kernel id of the thread that holds the lock; 0: none.
    pub fn holder(&self) -> u32 {
        self.word().load(Ordering::Acquire) & HOLDER
    }

    /// The first word of the mutex, which glibc and the kernel change.
    #[inline]
    fn word(&self) -> &AtomicU32 {
        // SAFETY: inside the mutex and aligned; all change it atomically.
        unsafe { &*self.0.get().cast::<AtomicU32>() }
    }

    /// Declare what the lock protects whole again. Has no effect if it was.
    pub fn make_consistent(&self) {
        // SAFETY: an initialised mutex; glibc refuses what is not held after `OwnerDied`.
        unsafe { libc::pthread_mutex_consistent(self.0.get()) };
    }

    /// Unlock; only the holder may.
    #[inline]
    pub fn unlock(&self) {
        // SAFETY: an initialised mutex; glibc refuses (robust mutexes know their owner) when it is not held.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
    }

    /// Run under the lock; `repair` runs first when the owner died, and last when `body` panics.
    ///
    /// # Errors
    /// `EIO` when the mutex cannot be used any more: `body` did not run.
    pub fn with<T>(&self, repair: impl Fn(), body: impl FnOnce() -> T) -> Outcome<T> {
        let acquired = self.lock().ok_or(Errno(libc::EIO))?;
        Ok(self.run_locked(acquired, repair, body))
    }

    /// Run under a lock that was just taken, and unlock.
    pub fn run_locked<T>(
        &self,
        acquired: Acquired,
        repair: impl Fn(),
        body: impl FnOnce() -> T,
    ) -> T {
        let run = catch_unwind(AssertUnwindSafe(|| {
            if acquired == Acquired::OwnerDied {
                repair();
                self.make_consistent();
            }
            body()
        }));
        if run.is_err() {
            // As after the death of an owner. The caller may catch the panic, so the mutex must not stay locked.
            let _ = catch_unwind(AssertUnwindSafe(&repair));
            self.make_consistent();
        }
        self.unlock();
        run.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

#[inline]
fn acquired(result: i32) -> Result<Acquired, LockFailure> {
    match result {
        0 => Ok(Acquired::Clean),
        libc::EOWNERDEAD => Ok(Acquired::OwnerDied),
        libc::EBUSY | libc::ETIMEDOUT => Err(LockFailure::Busy),
        _ => Err(LockFailure::Unusable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_swallowed_panic_repairs_and_unlocks() {
        let mutex = RobustMutex::new();
        let repairs = Cell::new(0);
        let repair = || repairs.set(repairs.get() + 1);
        let panicked = catch_unwind(AssertUnwindSafe(|| mutex.with(repair, || panic!("inside"))));
        assert!(panicked.is_err());
        assert_eq!(repairs.get(), 1);
        assert_eq!(mutex.try_lock(), Ok(Acquired::Clean));
        mutex.unlock();
    }

    #[test]
    fn nothing_runs_without_the_lock() {
        let mutex = RobustMutex::new();
        std::thread::scope(|scope| {
            // A thread ends holding it; its successor unlocks without recovery.
            scope.spawn(|| mutex.lock()).join().expect("thread");
        });
        assert!(mutex.is_owner_dead());
        assert_eq!(mutex.lock(), Some(Acquired::OwnerDied));
        mutex.unlock();
        let ran = Cell::new(false);
        assert_eq!(mutex.with(|| (), || ran.set(true)), Err(Errno(libc::EIO)));
        assert!(!ran.get());
    }

    /// Bit of the `__lock` word, glibc's first word of the mutex, that says that threads wait.
    const WAITERS: u32 = 1 << 31;

    #[test]
    fn waiter_gets_the_lock_after_a_lost_wakeup() {
        let mutex = RobustMutex::new();
        assert_eq!(mutex.lock(), Some(Acquired::Clean));
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                let got = mutex.lock();
                mutex.unlock();
                got
            });
            let word = mutex.word();
            while word.load(Ordering::Acquire) & WAITERS == 0 {
                std::thread::yield_now();
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            // State left when a third thread takes the lock before the woken waiter, which then dies.
            word.fetch_and(!WAITERS, Ordering::AcqRel);
            mutex.unlock();
            assert_eq!(waiter.join().expect("waiter"), Some(Acquired::Clean));
        });
    }
}
