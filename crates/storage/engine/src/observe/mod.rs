//! What threads do with files, for observers of a session.

pub(crate) mod callers;
pub(crate) mod notes;
pub(crate) mod reports;
mod watchers;
