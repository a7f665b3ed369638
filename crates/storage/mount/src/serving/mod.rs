//! Requests of the kernel, and the threads that serve them.

pub(crate) mod filesystem;
pub(crate) mod recalls;
pub(crate) mod requests;
pub(crate) mod waiting;
