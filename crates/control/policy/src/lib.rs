//! The `policy` room: what should be done about a window of facts, and why.
//!
//! Everything here is pure: the same machine, window and settings give the same plan, whatever
//! the order of the threads. There is no clock and no I/O, so the steward, the replay of a
//! recorded trace and the simulator call the same code.
//!
//! * [`nthread`]: threads go to their data (NThread, Wang, Jiang, Xiong).
//! * [`pats`]: not too many threads on persistent memory at once (PATS, Wang, Cao, Lu, Jiang, Dong).
//! * [`asymsched`]: clusters of threads and their memory go where links carry most (AsymSched, Lepers, Quéma,
//!   Fedorova). Its facts and plans are its own: accesses to memory, and whole nodes that move.
//! * [`mba`]: programs that do not ask for admission get a share of their bandwidth where memory gives less to many.
//! * [`diagnosis`]: what is wrong with the placement of programs, by what the planner would do.
//! * [`planner`]: all of these and what is beyond them (delegation, data that moves) as one decision.
//!
//! A [`Plan`] says which threads go where ([`Move`], each with its [`Reason`]), which stay
//! although something speaks for another node ([`Kept`]), and what is expected of the nodes
//! ([`NodeLoad`]).
//!
//! A [`planner::Planner`] decides window after window; its [`planner::Decision`] is a list of [`Action`]s, each with
//! its reason and, where something can be said, what it should bring ([`Expectation`]). The crate `egeria-control`
//! runs the loop.

#![forbid(unsafe_code)]

// A policy with code of its own has the same paths in this crate, in tests and in other crates.
extern crate self as egeria_policy;

mod action;
mod action_kind;
pub mod asymsched;
pub mod control;
pub mod diagnosis;
mod expectation;
mod expected;
mod kept_process;
mod kind_fate;
pub mod mba;
mod measured;
mod measures;
mod media;
pub mod nthread;
pub mod pats;
mod plan;
pub mod planner;
mod reason;
mod rest;
mod setting;
mod subject;
mod swing;
pub mod together;

pub use action::{Action, ActionOutcome, ActionRecord, ActionResult};
pub use action_kind::ActionKind;
pub use expectation::{Expectation, Measure};
pub use expected::Basis;
pub use kept_process::{KeptProcess, ProcessKept};
pub use kind_fate::KindFate;
pub use plan::{Displaced, Kept, Move, NodeLoad, Note, Plan, Target};
pub use reason::{Contention, KeptBecause, Reason};
pub use setting::SettingError;
pub use subject::Subject;
