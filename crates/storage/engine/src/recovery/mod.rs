//! Recovery: after a crash, after the death of a process, and on request.

pub(crate) mod check;
pub(crate) mod reap;
pub(crate) mod recover;
pub(crate) mod scrub;
pub(crate) mod undo;
