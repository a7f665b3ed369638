//! What measurements and tests share.
//!
//! - [`fork`]: copies of this process that run a closure; [`memory`]: mappings and what processes share in them.
//! - [`process`]: child processes in groups of their own, with time limits.
//! - [`program`]: where programs and libraries of this build are.
//! - [`testing`]: what tests of whole programs need.

pub mod fork;
pub mod locks;
pub mod memory;
pub mod process;
pub mod program;
mod progress;
pub mod testing;

pub use egeria_files::{Error, Result};
pub use progress::{Progress, silent};
