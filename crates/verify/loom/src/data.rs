//! As `fs::data`.

#[path = "../../../storage/engine/src/data/index.rs"]
pub(crate) mod index;
