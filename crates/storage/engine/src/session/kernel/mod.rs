//! What the kernel of a mount may have of an inode: pages, names, attributes, numbers.

pub(crate) mod kernel_marks;
pub(crate) mod lease_words;
pub(crate) mod leases;
pub(crate) mod lookup_references;
