//! In-place writers and the holder of their inode's lock exclude each other without a common lock: each publishes what
//! it is about to do, then checks what the other published.
//!
//! ```text
//! writer: in_place = inode; fence; owner != 0? then take it back, else write; in_place = 0
//! locker: owner = me;       fence; wait while in_place is the inode; change;    owner = 0
//! ```
//! So at least one sees the other. The writer withdraws, the locker waits.

use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A writer in place is at work, until this is dropped.
pub(crate) struct WritingInPlace<'a>(&'a AtomicU64);

impl<'a> WritingInPlace<'a> {
    /// With the word of this thread's slot and the owner word of the inode. `None`: another thread holds the inode's
    /// lock.
    #[inline(always)]
    pub(crate) fn begin(
        in_place: &'a AtomicU64,
        ino: u64,
        owner: &AtomicU32,
    ) -> Option<WritingInPlace<'a>> {
        in_place.store(ino, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let writing = WritingInPlace(in_place);
        // What the last holder of the lock changed is seen from here on.
        (owner.load(Ordering::Acquire) == 0).then_some(writing)
    }
}

impl Drop for WritingInPlace<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// Between the store of the owner word and the looks at slots.
#[inline]
pub(crate) fn say_before_looking() {
    fence(Ordering::SeqCst);
}

/// Whether a slot's thread writes to an inode in place.
#[inline]
pub(crate) fn is_writing(in_place: &AtomicU64, ino: u64) -> bool {
    in_place.load(Ordering::Acquire) == ino
}
