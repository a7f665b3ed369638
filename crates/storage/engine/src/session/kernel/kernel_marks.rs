//! Marks of open inodes that have pages in a kernel's cache. They are counted in the mount process's table of open
//! inodes, above its opens.

use crate::session::direct;
use crate::session::late::Late;
use crate::session::layout::SessionInode;
use crate::session::opens::CACHED_UNIT;
use crate::session::patience;
use crate::session::volume::{FileReference, Volume};
use crate::types::*;
use std::sync::atomic::Ordering;

/// Checks of a direct writer's commit before its lock is waited for; a commit takes less than a microsecond.
const COMMIT_SPINS: usize = 2000;

impl Volume {
    /// Mark an open inode kernel-cached. Once this returns, `*_direct` calls of every process fail with `EAGAIN` until
    /// `unmark_kernel_cached`. Counted in the session, not per process. Takes the inode's lock only when a direct
    /// writer is in its commit.
    ///
    /// # Errors
    /// `ENOMEM`, and `EAGAIN` when all places of processes are taken.
    pub fn mark_kernel_cached(&self, ino: InodeNumber) -> Outcome<()> {
        let inode = self.inode(ino.0)?;
        // The count is raised before the table and lowered after it: a process that dies in between leaves the count
        // too high, never too low. The reaper subtracts only what the table says. An excess is never subtracted: until
        // the session ends, direct calls on that file go through the kernel, which is correct but slower.
        direct::mark(inode);
        let noted = self.change_entry(ino.0, CACHED_UNIT, true);
        if let Err(errno) = noted {
            inode.kernel_cached.fetch_sub(1, Ordering::AcqRel);
            return Err(errno);
        }
        for _ in 0..COMMIT_SPINS {
            if direct::is_settled(inode) {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        // Preempted, stopped or dead in there.
        let waited = self.lock_beside_leases(ino.0).map(drop);
        waited.inspect_err(|_| self.take_mark(ino, inode))
    }

    fn take_mark(&self, ino: InodeNumber, inode: &SessionInode) {
        if self.change_entry(ino.0, CACHED_UNIT, false).is_ok() {
            inode.kernel_cached.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Remove a mark (after the kernel's pages were dropped).
    pub fn unmark_kernel_cached(&self, ino: InodeNumber) {
        let Ok(inode) = self.inode(ino.0) else { return };
        if self.lose_named_use(ino, || self.take_mark(ino, inode)) {
            return;
        }
        match self.lock_beside_leases(ino.0) {
            Ok(locked) => self.losing_use(&locked, || self.take_mark(ino, inode)),
            Err(errno) if patience::is_expiry(errno) => self.later(Late::Unmark(ino)),
            Err(_) => {}
        }
    }

    /// Whether the kernel holds pages of the inode; one relaxed load.
    #[inline]
    pub fn is_kernel_cached(&self, file: FileReference) -> bool {
        file.inode().kernel_cached.load(Ordering::Relaxed) != 0
    }

    /// Whether the kernel holds pages of the inode with this number.
    #[inline]
    pub fn has_kernel_pages(&self, ino: InodeNumber) -> bool {
        let inode = self.inode(ino.0);
        inode.is_ok_and(|inode| inode.kernel_cached.load(Ordering::Relaxed) != 0)
    }

    /// A number that changes with every commit to an inode, to compare with an earlier one; `None`: there is no such
    /// inode. Overwrites in place do not change it, but none are made while the kernel holds pages.
    pub fn change_number(&self, ino: InodeNumber) -> Option<u64> {
        let inode = self.inode(ino.0).ok()?;
        Some(inode.sequence.load(Ordering::Acquire))
    }
}
