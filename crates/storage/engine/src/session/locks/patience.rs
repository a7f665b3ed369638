//! How long this thread waits for the lock of an inode. Without a limit it waits until the holder unlocks, even if the
//! holder is stopped. With a limit, the operation fails before it changed anything. It can then be repeated by a
//! thread that holds nothing during the wait.

use crate::types::{Errno, Outcome};
use egeria_media::clock::now_ns;
use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Tries before sleeping for a mutex: usually it is held for microseconds.
const YIELDS: u64 = 200;
/// How often it is looked at then.
const LOOK_AGAIN: Duration = Duration::from_micros(50);
/// How long a reader waits for a lock before it reads the log instead.
pub(crate) const LOOKING_PATIENCE: Duration = Duration::from_millis(5);
/// Stands for an unknown inode; any number works, this is the root's.
const ANY_INODE: u64 = 1;

/// The monotonic clock as it was a few ms ago, which is read in a few ns.
pub(crate) fn coarse_now_ms() -> u64 {
    now_ns(libc::CLOCK_MONOTONIC_COARSE) as u64 / 1_000_000
}

/// What an operation with a limit could not wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The lock of an inode, or the recall of its leases.
    Inode(u64),
    /// A kernel remembers the names of this file, or those in this directory.
    Names(u64),
    /// The lock of renames that move directories.
    Renames,
}

thread_local! {
    static LIMIT: Cell<Option<Duration>> = const { Cell::new(None) };
    static OBSTACLE: Cell<Option<Obstacle>> = const { Cell::new(None) };
}

/// The present limit of this thread. A thread with its thread-local memory already destroyed has none.
pub(crate) fn limit() -> Option<Duration> {
    LIMIT.try_with(Cell::get).unwrap_or(None)
}

/// The error for a lock that was not free in time.
#[cold]
pub(crate) fn expired(ino: u64) -> Errno {
    blocked_by(Obstacle::Inode(ino))
}

/// The error of an operation that must wait for this obstacle without locks.
#[cold]
pub(crate) fn blocked_by(obstacle: Obstacle) -> Errno {
    let _ = OBSTACLE.try_with(|cell| cell.set(Some(obstacle)));
    Errno(libc::EAGAIN)
}

/// Whether an error is that of a lock that was not free in time.
pub(crate) fn is_expiry(errno: Errno) -> bool {
    errno == Errno(libc::EAGAIN) && OBSTACLE.try_with(Cell::get).unwrap_or(None).is_some()
}

/// Restores the limit, also on a panic.
struct Restore(Option<Duration>);

impl Drop for Restore {
    fn drop(&mut self) {
        let _ = LIMIT.try_with(|limit| limit.set(self.0));
    }
}

/// Run `body` with this limit for waits for locks of inodes; the error is what it would have had to wait for.
pub(crate) fn within<T>(
    limit: Duration,
    body: impl FnOnce() -> Outcome<T>,
) -> Result<Outcome<T>, Obstacle> {
    let _restore = Restore(
        LIMIT
            .try_with(|cell| cell.replace(Some(limit)))
            .unwrap_or(None),
    );
    // The obstacle of an enclosing call is kept.
    let before = OBSTACLE.try_with(Cell::take).unwrap_or(None);
    let outcome = body();
    let obstacle = OBSTACLE
        .try_with(|cell| cell.replace(before))
        .unwrap_or(None);
    match (&outcome, obstacle) {
        (Err(_), Some(obstacle)) => Err(obstacle),
        _ => Ok(outcome),
    }
}

/// For threads that must not wait long, because few of them serve many: run `body`, which fails before it changed
/// anything when the lock of an inode is not free within `limit`. The result is then `None`: run it again where
/// waiting is acceptable.
///
/// # Errors
/// What `body` fails with.
pub fn within_patience<T>(
    limit: Duration,
    body: impl FnOnce() -> Outcome<T>,
) -> Option<Outcome<T>> {
    within(limit, body).ok()
}

/// Lock a mutex of this process, with the limit of this thread: its holders may wait for locks of inodes.
///
/// # Errors
/// `EAGAIN` when it is not free in time: within [`within_patience`], which then returns `None`.
pub fn lock_within_patience<T>(mutex: &Mutex<T>) -> Outcome<MutexGuard<'_, T>> {
    let Some(limit) = limit() else {
        return Ok(mutex.lock().unwrap_or_else(PoisonError::into_inner));
    };
    let deadline = Instant::now() + limit;
    let mut looks = 0;
    loop {
        looks += 1;
        match mutex.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(expired(ANY_INODE));
            }
            Err(TryLockError::WouldBlock) if looks < YIELDS => std::thread::yield_now(),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK_AGAIN),
        }
    }
}

/// Wait until a condition holds, which is expected soon, with the limit of this thread.
///
/// # Errors
/// `EAGAIN` when it does not hold in time: within [`within_patience`], which then returns `None`.
pub fn wait_within_patience(mut holds: impl FnMut() -> bool) -> Outcome<()> {
    let deadline = limit().map(|limit| Instant::now() + limit);
    while !holds() {
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(expired(ANY_INODE));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failure_for_a_lock_counts_and_limits_nest() {
        let limits = (Duration::from_millis(1), Duration::from_millis(5));
        let outer = within(limits.1, || {
            assert_eq!(
                within(limits.0, || Err::<(), _>(expired(7))),
                Err(Obstacle::Inode(7))
            );
            assert_eq!(limit(), Some(limits.1));
            let recovered = within(limits.0, || {
                expired(8);
                Ok(3)
            });
            assert_eq!(recovered, Ok(Ok(3)));
            Err::<(), _>(Errno(libc::ENOENT))
        });
        assert_eq!(outer, Ok(Err(Errno(libc::ENOENT))));
        let outer = within(limits.1, || {
            let error = expired(9);
            assert_eq!(within(limits.0, || Ok(())), Ok(Ok(())));
            Err::<(), _>(error)
        });
        assert_eq!(
            outer,
            Err(Obstacle::Inode(9)),
            "looking meanwhile hides nothing"
        );
        assert_eq!(limit(), None);
    }
}
