//! Names and attributes: directories, the inodes of their names, and the numbers and leases given to kernels.

pub(crate) mod attributes;
pub(crate) mod directory;
pub(crate) mod extended;
pub(crate) mod layout_attribute;
pub(crate) mod name_hash;
pub(crate) mod named;
pub(crate) mod names;
pub(crate) mod path;
pub(crate) mod rename;
pub(crate) mod unlocked;
