//! Direct writers and pages in the kernel's cache: a direct writer must not commit changes that are missing in the
//! kernel's pages of the inode. Before the kernel gets pages, the inode is marked without its lock. (A writer that
//! holds the lock may wait for these very pages: its source may be a mapping of the same file.) Writers check the mark
//! again after they have read the caller's memory.
//!
//! ```text
//! writer: committing = 1; fence; marked? then give up, else commit and apply; committing = 0
//! marker: marked += 1;    fence; wait while committing; then read what the kernel gets
//! ```

use crate::session::layout::SessionInode;
use crate::sync::atomic::{Ordering, fence};

/// A direct writer between its last look at the mark and the end of its change.
pub(crate) struct DirectCommit<'a>(&'a SessionInode);

impl<'a> DirectCommit<'a> {
    /// `None`: the kernel has, or gets, pages. Called by the holder of the inode's lock.
    #[inline(always)]
    pub(crate) fn begin(inode: &'a SessionInode) -> Option<DirectCommit<'a>> {
        inode.committing.store(1, Ordering::Relaxed);
        // Just before the commit's own fence, which then has nothing left to wait for.
        fence(Ordering::SeqCst);
        let commit = DirectCommit(inode);
        (inode.kernel_cached.load(Ordering::Relaxed) == 0).then_some(commit)
    }

    /// After the death of a writer, called by the thread that recovered its change.
    pub(crate) fn end_of_dead(inode: &SessionInode) {
        inode.committing.store(0, Ordering::Release);
    }
}

impl Drop for DirectCommit<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.committing.store(0, Ordering::Release);
    }
}

/// Mark the inode once more.
pub(crate) fn mark(inode: &SessionInode) {
    inode.kernel_cached.fetch_add(1, Ordering::Relaxed);
    fence(Ordering::SeqCst);
}

/// No writer is left that did not see the mark.
#[inline]
pub(crate) fn is_settled(inode: &SessionInode) -> bool {
    inode.committing.load(Ordering::Acquire) == 0
}
