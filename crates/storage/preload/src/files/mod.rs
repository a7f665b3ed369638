//! Files and directories as a whole: they are opened without the kernel, listed, closed, locked by ranges, shared with
//! children, and left when rights change. It builds on `serve`.

pub(crate) mod dir_entries;
pub(crate) mod dir_streams;
pub(crate) mod direct_open;
pub(crate) mod forks;
pub(crate) mod numbers;
pub(crate) mod range_locks;
pub(crate) mod withdraw;
