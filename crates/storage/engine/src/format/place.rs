//! Which log is read.

/// The inode of the log to walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogPlace {
    pub(crate) ino: u64,
    pub(crate) generation: u32,
    /// Pages of the chain up to and including the first page of the walk; 0 from the head.
    pub(crate) pages_before: u32,
    /// The walk has no lock: what looks damaged may have changed during the walk.
    pub(crate) unlocked: bool,
    /// Word of the log's head; `None`: as it is on media now.
    pub(crate) head: Option<u64>,
}
