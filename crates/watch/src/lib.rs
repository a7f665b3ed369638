//! The `watch` room: where windows of facts come from.
//!
//! * [`trace`]: windows recorded to a file, and read back.

pub mod trace;
