//! Source of atomics for the modules that `crates/verify/loom` checks; under test they are loom's.

pub(crate) use std::sync::atomic;
