//! The memory of a process, and its mappings.

mod area;
pub mod areas;
pub mod located;
pub mod process;
pub mod sleepers;
pub(crate) mod walk;
