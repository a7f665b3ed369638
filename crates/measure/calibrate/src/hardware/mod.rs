//! The memory of this machine, measured: threads on their CPUs, loops through buffers, one sample at a time.

pub(crate) mod bench;
pub(crate) mod kernels;
pub(crate) mod mapping;
pub(crate) mod sample;
pub(crate) mod setup;
pub(crate) mod target;
pub(crate) mod threads;
