//! As `fs::data`.

#[path = "../../fs/src/data/index.rs"]
pub(crate) mod index;
