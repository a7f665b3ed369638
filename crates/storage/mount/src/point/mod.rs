//! The mount point: making it, finding mounts, and taking them away.

pub(crate) mod endpoint;
pub(crate) mod error;
pub(crate) mod helper;
pub(crate) mod holders;
pub(crate) mod identity;
pub(crate) mod mountinfo;
pub(crate) mod place;
pub(crate) mod unmount;
