//! Trials: something measured with and without something else, in pairs of random order, until the answer is known.
//!
//! ```text
//!   order ──side──▶ subject: one run ──value──▶ pairs ──▶ judge, at the looks of the design ──▶ answer
//!     ▲                                                      │ not known yet
//!     └──────────────────────────────────────────────────────┘
//! ```
//!
//! - [`design`]: when a trial looks, and how sure each look must be; why it does not claim too much.
//! - [`signed_rank`]: the test of a look, exact for any noise because the order of each pair is random.
//! - [`answer`]: better, worse, no difference that matters, not known.
//! - [`noise`]: how far runs differ by themselves, and whether they drift.
//! - [`trial`]: the loop, of any [`trial::Subject`].
//! - [`commands`]: the subject that runs a command; [`program`]: one run; [`number`] and [`metric`]: its value;
//!   [`host`]: whose CPU time passed.
//! - [`service`]: the subject that lets a service run on, in blocks of time; [`activity`]: what the host counts of it.
//! - [`report`]: what was found, as fields and sentences, and as a page with a picture.
//! - [`simulation`]: trials of programs with a known truth, which count how often the answer is right.

#![forbid(unsafe_code)]

pub mod activity;
pub mod answer;
pub mod commands;
pub mod design;
pub mod host;
pub mod kind;
pub mod metric;
pub mod noise;
pub mod number;
pub mod order;
mod page;
mod page_of_metrics;
pub mod program;
pub mod report;
pub mod service;
pub mod side;
pub mod signed_rank;
pub mod simulation;
pub mod trial;
