//! The memory that processes share: the segment, its layout, the pages in it, and which segments are trusted.

pub mod arena;
pub(crate) mod free_list;
pub mod layout;
pub(crate) mod machine;
pub mod map;
pub(crate) mod memory;
pub(crate) mod memory_group;
pub(crate) mod segments;
pub(crate) mod trust;
