//! Which threads may access the memory of a pool now: the Selector of PATS (Wang, Cao, Lu, Jiang, Dong: *PATS: Taming
//! Bandwidth Contention between Persistent and Dynamic Memories*, §IV).
//!
//! The limit comes from outside: a planner or an operator sets it. This crate has no policy, clock, threads or locks:
//! the caller passes the time and does the waiting.
//!
//! * [`Selector`]: which thread is admitted next. Its state is plain words ([`Words`]), and each step changes one
//!   word. So the same code serves a model and memory shared between processes.
//! * [`Request`]: what a thread asks for; [`Bypass`]: which requests are too small to wait.

#![forbid(unsafe_code)]

mod request;
mod selector;
mod slot;
mod words;

pub use request::{Bypass, Request};
pub use selector::{Admission, Selector, StepError, ThreadId, words_for};
pub use slot::Phase;
pub use words::{PlainWords, Words};
