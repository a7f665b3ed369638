//! Work that is deferred until a lock can be taken.

use crate::types::InodeNumber;

/// What is left to do when a lock can be had.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Late {
    /// An open to give back.
    Close(InodeNumber),
    /// A mark to take off.
    Unmark(InodeNumber),
    /// A run of blocks ([`crate::format::Extent`]) that is free.
    Run(u64),
    /// An inode number that is free.
    Number(u64),
}
