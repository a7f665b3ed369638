//! Reading an inode without its lock, under its sequence. A read never waits for a thread stopped in the middle of a
//! change: after a short time it reads the log instead (`committed`).

use crate::format::place::LogPlace;
use crate::log::Log;
use crate::session::layout::{LOADED, SessionInode};
use crate::session::patience::{self, LOOKING_PATIENCE};
use crate::session::seqlock::OPTIMISTIC_TRIES;
use crate::session::seqlock::Snapshot;
use crate::types::*;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Log<'_> {
    /// Read an inode without its lock, else under the lock if it is free soon, else from its log.
    pub(crate) fn read_unlocked<T>(
        self,
        ino: u64,
        unlocked: impl Fn(&SessionInode, LogPlace) -> Outcome<T>,
        committed: impl Fn() -> Outcome<T>,
    ) -> Outcome<T> {
        let inode = self.volume.inode(ino)?;
        loop {
            for _ in 0..OPTIMISTIC_TRIES {
                if let Some(seen) = read_unlocked_once(inode, ino, &unlocked) {
                    return seen;
                }
            }
            // A change that made no progress during an earlier wait is not waited for again.
            let limit = if self.volume.stuck.is(ino, inode) {
                Duration::ZERO
            } else {
                LOOKING_PATIENCE
            };
            let locked = patience::within(limit, || {
                let locked = self.volume.lock_beside_leases(ino)?;
                unlocked(locked.inode, locked.log_place())
            });
            if let Ok(outcome) = locked {
                return outcome;
            }
            self.volume.stuck.note(ino, inode);
            match committed() {
                // It changes all the time, so its writer is not stopped.
                Err(Errno(libc::EAGAIN)) => {}
                outcome => return outcome,
            }
        }
    }
}

/// `None`: it is not loaded, or a thread is changing it.
#[inline(always)]
pub(crate) fn begin_look(inode: &SessionInode) -> Option<Snapshot> {
    let look = Snapshot::begin(inode);
    if look.write_in_progress() {
        std::hint::spin_loop();
        return None;
    }
    // Changes committed by a dead owner are in the log, but not in the session yet.
    let is_loaded = inode.state.load(Ordering::Acquire) == LOADED && !inode.mutex.is_owner_dead();
    is_loaded.then_some(look)
}

#[inline(always)]
pub(crate) fn unlocked_place(inode: &SessionInode, ino: u64) -> LogPlace {
    LogPlace {
        ino,
        generation: inode.generation.load(Ordering::Relaxed),
        pages_before: 0,
        unlocked: true,
        head: None,
    }
}

/// One read of a loaded inode; `None`: it changed during the read, or a thread is changing it.
pub(crate) fn read_unlocked_once<T>(
    inode: &SessionInode,
    ino: u64,
    unlocked: &impl Fn(&SessionInode, LogPlace) -> Outcome<T>,
) -> Option<Outcome<T>> {
    let look = begin_look(inode)?;
    let seen = unlocked(inode, unlocked_place(inode, ino));
    let damaged = matches!(seen, Err(Errno(libc::EIO)));
    // A checksum error without the lock may be a race. It is reported only under the lock.
    (look.is_unchanged_after_copy(inode) && !damaged).then_some(seen)
}
