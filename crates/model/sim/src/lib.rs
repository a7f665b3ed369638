//! The `sim` room: what programs get from a machine, predicted.
//!
//! A fluid model: threads alternate computing and access to memory, and at every moment share cores, the
//! memory of each node and the links between them max-min fairly ([`run()`]). The machine is what its file
//! says; the policies are those that the steward runs. Everything is deterministic, and nothing here
//! asks the kernel.
//!
//! A [`Workload`] says what the programs do; the format is described in [`mod@workload`], and a recording becomes one
//! ([`Workload::recorded`]).

#![forbid(unsafe_code)]

mod act;
mod effort;
mod error;
mod facts;
mod file;
mod memory;
mod outcome;
mod rates;
mod recorded;
mod run;
mod state;
pub mod uncertainty;
pub mod workload;

pub use egeria_machine::costs::Pattern;
pub use error::SimError;
pub use outcome::{
    Allocation, GroupOutcome, GroupWindow, LaneOutcome, MemoryOutcome, MoveOutcome, NodeOutcome,
    Options, Outcome, WindowOutcome, used_lanes,
};
pub use run::run;
pub use uncertainty::{Leaning, Range, Uncertainty};
pub use workload::{FileGroup, Layout, MediumKind, Phase, ThreadGroup, Workload};
