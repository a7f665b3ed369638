//! Where the modules that `crates/models` checks take their atomics from: there, it is loom's.

pub(crate) use std::sync::atomic;
