//! Long waits: limits, notes, and inodes that could not be locked in time.

pub(crate) mod stuck;
pub(crate) mod wait_notes;
pub(crate) mod waiting;
