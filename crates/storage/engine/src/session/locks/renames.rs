//! The lock of the shape of the tree.

use crate::session::lock::{Acquired, LockFailure, RobustMutex};
use crate::session::map::Session;
use crate::session::patience::{self, Obstacle};
use crate::types::*;

/// The lock, held.
pub(crate) struct Held<'a>(&'a RobustMutex);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

impl Session {
    /// Exclude other threads that move directories between directories.
    pub(crate) fn lock_renames(&self) -> Outcome<Held<'_>> {
        let mutex = &self.header().rename;
        let acquired = match (mutex.try_lock(), patience::limit()) {
            (Err(LockFailure::Busy), Some(limit)) => mutex.lock_within(limit),
            (Err(LockFailure::Busy), None) => mutex.lock().ok_or(LockFailure::Unusable),
            (tried, _) => tried,
        };
        match acquired {
            Ok(Acquired::Clean) => {}
            // The lock protects no state of its own.
            Ok(Acquired::OwnerDied) => mutex.make_consistent(),
            Err(LockFailure::Busy) => return Err(patience::blocked_by(Obstacle::Renames)),
            Err(LockFailure::Unusable) => return Err(Errno(libc::EIO)),
        }
        Ok(Held(mutex))
    }

    /// Wait, without locks, until no directory is being moved.
    #[cold]
    pub(crate) fn wait_for_renames(&self) -> Outcome<()> {
        self.lock_renames().map(drop)
    }
}
