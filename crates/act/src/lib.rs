//! Actuators: what decisions do to running threads.
//!
//! * [`ThreadAffinity`] migrates threads by narrowing the CPUs they may use.
//! * [`Journal`] is written before a mask is applied: whoever starts after a kill undoes what it lists.

#![forbid(unsafe_code)]

mod journal;
mod restore;
mod thread_affinity;

pub use journal::{Journal, JournalError};
pub use thread_affinity::ThreadAffinity;
