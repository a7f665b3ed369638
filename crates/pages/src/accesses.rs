//! What the programs of a machine access in memory, per process and node.
//!
//! * [`Sampler`]: looks at processes for a moment; [`Referenced`] asks the page tables, [`Recorded`] gives what it was given.
//! * [`MemorySource`]: facts of processes, with what a sampler saw of them.
//! * [`HotPages`]: which pages those were.

mod recorded;
mod referenced;
mod sampler;
mod source;

pub use recorded::Recorded;
pub use referenced::{HotAreas, Referenced};
pub use sampler::{HotPages, Sample, Sampler};
pub use source::MemorySource;
