//! Locks, gates and barriers that need no libc. They build on `system`; `crates/verify/loom` checks the modules that take
//! their atomics and their waiting from here, with those of loom.

mod apart;
mod gate;
mod lock;
mod locked;
mod waiting;

pub(crate) use apart::Apart;
pub(crate) use gate::Gate;
pub(crate) use lock::Lock;
pub(crate) use locked::Locked;
pub(crate) use std::sync::atomic;
pub(crate) use waiting::{SPINS, heavy_barrier, light_barrier, pause, wait, wake_one};
