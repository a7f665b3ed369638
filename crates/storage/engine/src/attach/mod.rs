//! Finding, making and attaching the pools of a volume.

pub(crate) mod attach_volume;
pub(crate) mod create;
pub(crate) mod pool_locks;
pub(crate) mod pools;
pub(crate) mod private;
pub(crate) mod session_line;
