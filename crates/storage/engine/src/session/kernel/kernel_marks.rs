//! Marks of open inodes that have pages in a kernel's cache. They are counted in the mount process's table of open
//! inodes, above its opens.

use crate::session::Uses;
use crate::session::layout::SessionInode;
use crate::session::opens::CACHED_UNIT;
use crate::types::*;
use std::sync::atomic::Ordering;

/// Checks of a direct writer's commit before its lock is waited for; a commit takes less than a microsecond.
pub(in crate::session) const COMMIT_SPINS: usize = 2000;

impl Uses<'_> {
    pub(in crate::session) fn take_mark(self, ino: InodeNumber, inode: &SessionInode) {
        if self.change_entry(ino.0, CACHED_UNIT, false).is_ok() {
            inode.kernel_cached.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
