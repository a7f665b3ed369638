//! Which threads may access the memory of a pool now: the Selector of PATS (Wang, Cao, Lu, Jiang, Dong: *PATS: Taming
//! Bandwidth Contention between Persistent and Dynamic Memories*, §IV).
//!
//! The limit comes from outside: a planner or an operator sets it. Nothing here knows a policy, has a clock, a thread or a lock:
//! time is given, and waiting is the caller's.
//!
//! * [`Selector`]: which thread is admitted next. Its state is plain words ([`Words`]), and each step changes one word: so the
//!   same code serves a model and memory that processes share.
//! * [`Request`]: what a thread asks for; [`Bypass`]: what is too small to wait.

#![forbid(unsafe_code)]

mod request;
mod selector;
mod slot;
mod words;

pub use request::{Bypass, Request};
pub use selector::{Admission, Selector, StepError, ThreadId, words_for};
pub use slot::Phase;
pub use words::{PlainWords, Words};
