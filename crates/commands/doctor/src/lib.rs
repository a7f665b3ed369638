//! What of Egeria works on a machine, and the commands that make the rest work.
//!
//! [`Facts`] are read from the files of a kernel below a replaceable root, [`Probes`] by asking the running one; what
//! follows from both is [`abilities`], without looking at anything.

#![forbid(unsafe_code)]

pub mod abilities;
mod capabilities;
mod container;
mod facts;
mod limits;
mod placement;
pub mod policies;
mod probes;
mod verdict;

pub use abilities::{Ability, State};
pub use capabilities::{Capabilities, Capability};
pub use facts::{Facts, HugePages};
pub use probes::{Probes, Sampling, SharedMemory, Traffic};
