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
//! | `waits` | long waits: limits, notes, and inodes that could not be locked in time |
//!
//! Other floors name a module by itself, without its folder.

mod api;
mod base;
mod data_paths;
mod inodes;
mod kernel;
mod kernel_api;
mod locks;
mod reports;
mod shm;
mod threads;
pub(crate) mod volume;
mod waits;

pub(crate) use data_paths::{access, admission, delegation, path_mode, traffic};
pub(crate) use inodes::{guess, index, inode, name_table, open_table, opens, write_back_errors};
pub(crate) use kernel::{lease_words, leases, lookup_references};
pub use locks::lock;
pub(crate) use locks::{direct, exclusion, in_place, late, patience, seqlock};
pub use shm::{arena, layout, map};
pub(crate) use shm::{free_list, machine, memory, memory_group, segments, trust};
pub(crate) use threads::{current, own_callers, owner_word, slot_ownership, slots, walks};
pub(crate) use waits::{stuck, wait_notes};

use volume::of_volume;

of_volume! {
    /// Reports of damage to the operator of the volume.
    Reports
}

of_volume! {
    /// Which process has which inode open.
    Uses
}

of_volume! {
    /// Taking the lock of an inode.
    Locking
}

of_volume! {
    /// Times of changes.
    Stamps
}

of_volume! {
    /// Inode numbers that kernels remember.
    References
}

of_volume! {
    /// What kernels may remember of an inode without asking.
    Leases
}

of_volume! {
    /// Waiting for a place at a pool.
    Admitting
}

of_volume! {
    /// Slots of processes and threads.
    Slots
}

of_volume! {
    /// Long waits, and reports of them.
    Waits
}

of_volume! {
    /// Work left until locks are free.
    LateWork
}
