//! What Egeria must survive, run by `egeria-torture` and by tests.
//!
//! - [`crash`]: the machine stops at every store and fence; what recovery makes of the pools is compared.
//! - [`kill`]: processes and mounts die or stop at random moments; no acknowledged operation may be lost.
//! - [`fuzz`]: forged volumes, recordings, machine files and requests, and everything done with them.

mod case_file;
pub mod crash;
mod crew;
pub mod fuzz;
pub mod kill;
mod names;
mod text;

pub use case_file::Replayed;
