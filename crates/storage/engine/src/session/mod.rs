//! State that attached processes share: the segment, its locks and slots, and the state of inodes in it.
//!
//! | folder | holds |
//! | --- | --- |
//! | `shm` | the memory that processes share: the segment, its layout, the pages in it, and which segments are trusted |
//! | `threads` | slots of processes and threads in the session |
//! | `locks` | an inode's lock, what readers and in-place writers do without it, and what happens when its owner dies |
//! | `inodes` | inodes in the session: loaded state, block index, opens, times |
//! | `kernel` | what the kernel of a mount may have of an inode: pages, names, attributes, numbers |
//! | `data_paths` | the bracket around accesses of pools: mode, admission, delegation, counts |
//! | `quotas` | usage of directory trees with limits |
//! | `kept_records` | the state of inodes at the instant of a snapshot |
//! | `waits` | long waits: limits, notes, and inodes that could not be locked in time |
//!
//! Other floors name a module by itself, without its folder.

mod api;
pub(crate) mod appended;
mod base;
mod data_paths;
mod inodes;
pub(crate) mod kept_records;
mod kernel;
mod kernel_api;
mod locks;
mod quotas;
mod reports;
mod shm;
mod threads;
pub(crate) mod volume;
mod waits;

pub(crate) use data_paths::{access, admission, delegation, path_mode, traffic};
pub(crate) use inodes::{
    guess, index, inode, name_table, name_words, open_table, opens, write_back_errors,
};
pub(crate) use kernel::{lease_words, leases, lookup_references};
pub use locks::lock;
pub(crate) use locks::{direct, exclusion, in_place, late, patience, robust_list, seqlock};
pub(crate) use quotas::{Amounts, TreeIndex};
pub use shm::{arena, layout, map};
pub(crate) use shm::{free_list, machine, memory, memory_group, segments, trust};
pub(crate) use threads::{current, own_callers, owner_word, slot_ownership, slots, walks};
pub(crate) use waits::{stuck, wait_notes};

use volume::of_volume;

of_volume! {
    /// Reports of damage to the operator of the volume.
    Reports;
    /// Which process has which inode open.
    Uses;
    /// Taking the lock of an inode.
    Locking;
    /// Times of changes.
    Stamps;
    /// Inode numbers that kernels remember.
    References;
    /// What kernels may remember of an inode without asking.
    Leases;
    /// Waiting for a place at a pool.
    Admitting;
    /// Slots of processes and threads.
    Slots;
    /// Long waits, and reports of them.
    Waits;
    /// Work left until locks are free.
    LateWork;
    /// Usage of directory trees with limits.
    Quotas;
    /// The state of inodes at the instant of a snapshot.
    Snapshots;
}
