//! The steward: runs the control loop over threads at work, and keeps a log that says why.
//!
//! ```text
//!   LiveSource ──Facts──▶ ControlLoop ──Action──▶ ThreadAffinity ──▶ sched_setaffinity
//!                             │                        └──▶ journal: what to undo, should we be killed
//!                             └──▶ decision log (JSON lines): seen, decided, why, expected, what came of it
//! ```
//!
//! It knows no formulas: what to do is the planner's. It touches only threads in its scope, narrows each
//! within the CPUs its owner gave it, and gives them back when it stops (DESIGN.md, invariant 7). Killed, it
//! leaves a journal, and the next start undoes what that lists first.

#![forbid(unsafe_code)]

mod error;
mod files;
mod idle;
mod kept;
mod kinds;
mod log;
mod memories;
mod mounts;
mod options;
mod pace;
mod place;
mod pulse;
mod rehearsal;
mod rivals;
mod seen;
mod sign;
mod steward;
mod summary;
mod target;
mod volumes;

pub use error::StewardError;
pub use kinds::KindLine;
pub use log::{
    ActionLine, ArrivingLine, KeptLine, LogReader, NodeRecord, Record, ResultLine, ThreadRecord,
    ThreadResult, WindowRecord,
};
pub use options::StewardOptions;
pub use place::{decision_log_path, runtime_directory, trusted_runtime_directory};
pub use rehearsal::Rehearsal;
pub use steward::Steward;
pub use summary::{ActionCount, NodeRates, Summary, WindowSummary};
pub use target::Target;

pub use egeria_actuators::{GatherProgress, Stuck};
pub use egeria_proc::Scope;
