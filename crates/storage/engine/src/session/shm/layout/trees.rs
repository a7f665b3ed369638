//! Limited directory trees, and what they use (see `session::quotas`).

use crate::format::JOURNAL_SLOTS;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Directory trees with limits at the same time.
pub const MAX_TREES: usize = 128;

/// `TreeHeader::state`: not used so far.
pub const TREE_FREE: u32 = 0;
/// `TreeHeader::state`: a process is counting what is in it. No limit is in force, but nothing leaves it by a rename.
pub const TREE_COUNTED: u32 = 1;
/// `TreeHeader::state`: its limits are in force.
pub const TREE_LIMITED: u32 = 2;
/// `TreeHeader::state`: its limits were removed. Inodes may still be counted here.
pub const TREE_RETIRED: u32 = 3;

/// A directory tree with limits.
#[repr(C, align(64))]
pub struct TreeHeader {
    /// [`TREE_FREE`], [`TREE_COUNTED`], [`TREE_LIMITED`] or [`TREE_RETIRED`].
    pub state: AtomicU32,
    /// Generation of the directory at its top.
    pub generation: AtomicU32,
    /// Inode number of the directory at its top.
    pub top: AtomicU64,
    /// Most blocks of its files; 0: no limit.
    pub limit_blocks: AtomicU64,
    /// Most inodes; 0: no limit.
    pub limit_inodes: AtomicU64,
}

/// What was ever added to a usage, and removed from it. Both only grow.
#[repr(C)]
pub struct Flow {
    pub added: AtomicU64,
    pub removed: AtomicU64,
}

/// What the users of one thread slot did to the usage of a tree. The sum over all slots is the usage.
#[repr(C)]
pub struct UsageCell {
    pub blocks: Flow,
    pub inodes: Flow,
}

/// The usage of a tree, by thread slot.
#[repr(C)]
pub struct TreeUsage {
    pub cells: [UsageCell; JOURNAL_SLOTS as usize],
}

/// A change of what an inode is charged, noted before it is made. Repeating it has no effect.
#[repr(C)]
pub struct UsageChange {
    /// 1: it may be half done.
    pub begun: AtomicU64,
    pub ino: AtomicU64,
    /// Index of the tree.
    pub tree: AtomicU64,
    /// The cell of the slot after the change.
    pub cell: UsageCell,
    /// `SessionInode::charged` after the change.
    pub charged: AtomicU64,
}
