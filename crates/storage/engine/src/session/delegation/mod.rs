//! The board of delegates of a process: jobs that callers post, and what was learned of their speed.

pub(crate) mod board;
pub(crate) mod job;
pub(crate) mod learned;
