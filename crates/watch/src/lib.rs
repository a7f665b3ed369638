//! The `watch` room: where windows of facts come from.
//!
//! * [`live`]: windows of a session, from its threads' counters and the kernel's view of them.
//! * [`trace`]: windows recorded to a file, and read back.
//! * [`own`]: files and directories that no other user can read, redirect or replace.

pub mod live;
mod members;
pub mod own;
pub mod task;
pub mod trace;
