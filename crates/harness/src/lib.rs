//! What measurements and tests share.
//!
//! - [`process`]: child processes in groups of their own, with time limits.
//! - [`program`]: where programs and libraries of this build are.
//! - [`scratch`]: volumes, pools and mount points that are gone when they are dropped.
//! - [`statistics`]: figures of repeated measurements; [`text`]: numbers for people.
//! - [`testing`]: what tests of whole programs need.

mod error;
pub mod process;
pub mod program;
mod progress;
pub mod scratch;
pub mod statistics;
pub mod testing;
pub mod text;

pub use error::{Error, Result};
pub use progress::{Progress, silent};
