//! As `fs::observe`.

#[path = "../../fs/src/observe/notes.rs"]
pub(crate) mod notes;
