//! Why an operation failed with `EIO`: kept per thread, because an errno gives no details. Plain words and no
//! allocation, because the preload library's hooks use it, too.

use egeria_media::{BlockNumber, PoolIndex};
use std::cell::Cell;
use std::fmt;

/// Why an operation failed with `EIO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureCause {
    /// A part of an inode on media is not what was written there.
    Damaged { ino: u64, what: &'static str },
    /// A block of a file does not match its checksum.
    Mismatch {
        ino: u64,
        /// First byte of the block in the file.
        offset_bytes: u64,
        /// Pool of the block.
        pool: PoolIndex,
        /// The block in its pool.
        block: BlockNumber,
    },
    /// The memory of a pool failed.
    Medium { pool: PoolIndex, block: BlockNumber },
    /// The lock of an inode cannot be used any more.
    Lock { ino: u64 },
}

impl fmt::Display for FailureCause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FailureCause::Damaged { ino, what } => write!(
                formatter,
                "{what} of inode {ino} is damaged; run `egeria check` on the volume"
            ),
            FailureCause::Mismatch {
                ino,
                offset_bytes,
                pool,
                block,
            } => write!(
                formatter,
                "the block at byte {offset_bytes} of inode {ino} (block {block} of pool {pool}) does not match its checksum; \
                 `egeria scrub` names the file, restore it from a copy"
            ),
            FailureCause::Medium { pool, block } => write!(
                formatter,
                "block {block} of pool {pool} cannot be accessed: the medium failed or the pool was truncated; \
                 `egeria scrub` names damaged files"
            ),
            FailureCause::Lock { ino } => write!(
                formatter,
                "the lock of inode {ino} cannot be used any more; detach the volume everywhere and attach it again"
            ),
        }
    }
}

thread_local! {
    static LAST: Cell<Option<FailureCause>> = const { Cell::new(None) };
}

/// Begin an operation with failures that are to be explained: forget earlier failures of this thread.
pub fn forget_failure_cause() {
    let _ = LAST.try_with(|last| last.set(None));
    egeria_media::forget_failure();
}

#[cold]
pub(crate) fn note(cause: FailureCause) {
    let _ = LAST.try_with(|last| last.set(Some(cause)));
}

/// The last cause noted by this thread; failures of the medium are noted by the pools.
pub(crate) fn last() -> Option<FailureCause> {
    LAST.try_with(Cell::get).ok().flatten()
}
