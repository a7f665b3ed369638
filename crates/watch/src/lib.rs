//! The `watch` room: where windows of facts come from.
//!
//! * [`live`]: windows of a session, from its threads' counters and the kernel's view of them.
//! * [`trace`]: windows recorded to a file, and read back.

pub mod live;
pub mod task;
pub mod trace;
