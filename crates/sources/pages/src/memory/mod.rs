//! The memory of a process, and its mappings.

pub mod areas;
pub mod process;
