//! The `steward` room: window, plan, act, and a log that says why.
//!
//! ```text
//!   watch ──window──▶ policy ──plan──▶ hands ──▶ sched_setaffinity
//!     ▲                  │               │
//!     └── marks of who was displaced     └──▶ grants file: what to put back, should we be killed
//!                        └──▶ decision log (JSON lines): seen, moved, why, expected, what came of it
//! ```
//!
//! It knows no formulas: what to do is `policy`'s. It touches only threads under it, narrows each within
//! the CPUs its owner gave it, and gives them back when it stops (DESIGN.md, invariant 7). Killed, it
//! leaves a list, and the next start puts everything back first.

mod error;
mod grants;
mod hands;
mod log;
mod place;
mod seen;
mod steward;
mod summary;

pub use error::StewardError;
pub use log::{
    Decision, LogReader, MoveRecord, NodeRecord, Outcome, Record, ResultRecord, ThreadRecord,
};
pub use place::{decision_log_path, runtime_directory, trusted_runtime_directory};
pub use steward::{Steward, StewardOptions};
pub use summary::{NodeRates, Summary, WindowSummary};

pub use egeria_watch::live::Scope;
