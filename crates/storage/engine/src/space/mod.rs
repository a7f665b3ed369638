//! Free blocks and inode numbers: their owners, their allocation, and the pool they come from.

pub(crate) mod free_space;
pub(crate) mod inode_alloc;
pub(crate) mod operation;
pub(crate) mod placement;
pub(crate) mod runs;
pub(crate) mod striping;
