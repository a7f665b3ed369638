//! What the kernel's files below a root say: caches, cores, DIMMs, free memory.

pub(crate) mod caches;
pub(crate) mod cores;
pub(crate) mod modules;
pub(crate) mod room;
