//! Accesses to memory as the performance events of the kernel sample them: by which thread, on which CPU, to which
//! address. And the traffic of memories, as their controllers count it.
//!
//! * [`Event`]: what is sampled. Loads on Intel (PEBS), operations on AMD (IBS), page faults on every machine.
//! * [`EventSampler`]: samples the whole machine, each CPU into a ring of its own; memory and time are bounded.
//! * [`MemoryEvents`], [`MemoryCounters`]: bytes read and written of each memory, of all programs.
//! * [`Instructions`]: how many instructions threads execute.
//! * [`record`]: what is in a ring, decoded; a recording of one is read in the same way ([`RecordedRings`]).
//!
//! It knows nothing of nodes: where an address is, others tell.

mod error;
mod event;
mod format;
mod instructions;
mod period;
mod reading;
pub mod record;
mod recorded;
mod ring;
mod sampler;
mod taken;
mod traffic;

pub use error::{PerfError, Result};
pub use event::{Event, Kind};
pub use instructions::Instructions;
pub use record::{Access, Served};
pub use recorded::RecordedRings;
pub use sampler::EventSampler;
pub use taken::{AccessEvents, Taken};
pub use traffic::{MemoryCounters, MemoryEvent, MemoryEvents, Traffic};
