//! The board of delegates of a process: jobs that callers post, and the learned speed of delegates.

pub(crate) mod board;
pub(crate) mod job;
pub(crate) mod learned;
