//! The state from which requests are answered.

pub(crate) mod adapter;
pub(crate) mod caller_cpu;
pub(crate) mod coherence;
pub(crate) mod contention;
pub(crate) mod known;
pub(crate) mod merge;
pub(crate) mod open_files;
pub(crate) mod preloaded;
pub(crate) mod privilege;
pub(crate) mod readers;
pub(crate) mod remembered;
pub(crate) mod tickets;
