//! As `engine::observe`.

#[path = "../../../storage/engine/src/observe/notes.rs"]
pub(crate) mod notes;
