//! Where the modules that `crates/models` checks take their atomics from: there, it is loom's.

pub(crate) use std::sync::atomic;

/// How often what changed while it was looked at is looked at again.
pub(crate) const TRIES: usize = 4;
