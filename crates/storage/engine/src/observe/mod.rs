//! What threads do with files, for those who watch a session.

pub(crate) mod callers;
pub(crate) mod notes;
pub(crate) mod reports;
mod watchers;
