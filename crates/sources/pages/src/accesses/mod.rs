//! What the programs of a machine access in memory, per process and node.
//!
//! * [`Sampler`]: looks at processes; [`Sampled`] has samples of the PMU or of page faults, [`Referenced`] asks the
//!   page tables, [`Recorded`] gives what it was given.
//! * [`Damon`](damon::Damon): has the kernel's DAMON observe the processes that run most.
//! * [`Written`]: page tables or DAMON, refined by write faults where a process has threads on several nodes.
//! * [`Choice`]: the best of these that works here, and what it can see.
//! * [`MemorySource`]: facts of processes, with what a sampler saw of them.
//! * [`HotPages`]: which pages those were.

mod choice;
pub mod damon;
mod mapped;
mod physical;
mod recorded;
mod referenced;
mod region;
mod rest;
mod sampled;
mod sampler;
mod source;
mod way;
mod writers;

pub use choice::Choice;
pub use recorded::Recorded;
pub use referenced::{HotAreas, Referenced};
pub use region::{REGION_BYTES, Region};
pub use sampled::{HotSamples, Sampled};
pub use sampler::{HotPages, Sample, Sampler, Spent};
pub use source::MemorySource;
pub use way::{UnknownWay, Way};
pub use writers::{HotWritten, LiveFaults, WriteFaults, Written};
