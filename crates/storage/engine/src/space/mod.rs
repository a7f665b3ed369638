//! Free blocks and inode numbers: who has them, who gets them, and from which pool.

pub(crate) mod free_space;
pub(crate) mod inode_alloc;
pub(crate) mod operation;
pub(crate) mod placement;
pub(crate) mod runs;
pub(crate) mod striping;
