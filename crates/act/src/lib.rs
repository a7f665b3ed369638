//! Actuators: what decisions do to running threads.
//!
//! * [`ThreadAffinity`] migrates threads by narrowing the CPUs they may use.
//! * [`AdmissionLimits`] limits how many threads access the memory of a node at once.
//! * [`Journal`] is written before a mask is applied: whoever starts after a kill undoes what it lists.

#![forbid(unsafe_code)]

mod admission_limits;
mod journal;
mod restore;
mod thread_affinity;

pub use admission_limits::AdmissionLimits;
pub use journal::{Journal, JournalError};
pub use thread_affinity::ThreadAffinity;
