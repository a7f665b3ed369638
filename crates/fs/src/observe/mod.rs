//! What threads do with files, for those who watch a session.

pub(crate) mod notes;
pub(crate) mod reports;
