//! Free blocks and inode numbers: their owners, their allocation, and the pool they come from.

mod api;
pub(crate) mod free_space;
mod held;
pub(crate) mod inode_alloc;
pub(crate) mod operation;
pub(crate) mod placement;
pub(crate) mod runs;
pub(crate) mod striping;

use crate::session::volume::of_volume;

of_volume! {
    /// Free blocks.
    Space;
    /// Free inode numbers.
    InodeNumbers;
    /// Which pool new data and inodes go to.
    Placing;
}
