//! What measurements and tests share.
//!
//! - [`fork`]: copies of this process that run a closure; [`memory`]: mappings and what processes share in them.
//! - [`process`]: child processes in groups of their own, with time limits.
//! - [`program`]: where programs and libraries of this build are.
//! - [`rng`]: random numbers that follow from a printed seed.
//! - [`scratch`]: volumes, pools and mount points that are gone when they are dropped.
//! - [`statistics`]: figures of repeated measurements; [`text`]: numbers for people.
//! - [`testing`]: what tests of whole programs need.

mod error;
pub mod fork;
pub mod locks;
pub mod memory;
pub mod process;
pub mod program;
mod progress;
pub mod rng;
#[cfg(feature = "volumes")]
pub mod scratch;
pub mod statistics;
pub mod testing;
pub mod text;

/// Names of scratch directories and mount points begin with this; the process id follows.
pub const SCRATCH_PREFIX: &str = "egeria-run-";

pub use error::{Error, Result};
pub use progress::{Progress, silent};
