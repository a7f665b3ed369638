//! Traffic of memories as the PMUs of memory controllers and CXL devices count it, of all programs.
//!
//! * [`MemoryEvents`]: which PMUs count it, from the kernel's own descriptions (`events/` and `cpumask`).
//! * [`MemoryCounters`]: counts it.

mod counters;
mod find;

pub use counters::{MemoryCounters, Traffic};
pub use find::{MemoryEvent, MemoryEvents};
