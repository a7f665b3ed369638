//! Putting things right: after a crash, after a process died, and on request.

pub(crate) mod check;
pub(crate) mod reap;
pub(crate) mod recover;
pub(crate) mod scrub;
pub(crate) mod undo;
