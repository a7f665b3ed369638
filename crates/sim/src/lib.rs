//! The `sim` room: what programs get from a machine, predicted.
//!
//! A fluid model: threads alternate computing and access to memory, and at every moment share cores, the
//! memory of each node and the links between them max-min fairly ([`run()`]). The machine is what its file
//! says; the policies are those that the steward runs. Everything is deterministic, and nothing here
//! asks the kernel.
//!
//! A [`Workload`] says what the programs do; the format is described in [`mod@workload`].

mod error;
mod fluid;
mod model;
mod run;
mod state;
pub mod workload;

pub use error::SimError;
pub use run::{Allocation, MoveOutcome, NodeOutcome, Options, Outcome, WindowOutcome, run};
pub use workload::{FileGroup, Phase, ThreadGroup, Workload};
