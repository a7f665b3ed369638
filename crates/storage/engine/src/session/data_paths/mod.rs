//! The bracket around accesses of pools: mode, admission, delegation, counts.

pub(crate) mod access;
pub(crate) mod admission;
pub(crate) mod delegation;
pub(crate) mod path_mode;
pub(crate) mod traffic;
