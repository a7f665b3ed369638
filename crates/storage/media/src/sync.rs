//! Where the modules that `crates/verify/loom` checks take their atomics from: there, it is loom's.

pub(crate) use std::sync::atomic;
