//! Placing threads and data, and what was recorded of it.

pub mod move_pages;
mod named_files;
pub mod recording;
pub mod replay;
pub mod steward;
pub mod trace;
pub mod trial;
pub mod warm;
pub mod weights;
