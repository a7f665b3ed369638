//! Facts of the session of a volume: from the counters of its threads, and from what the kernel says of them.

mod callers;
mod dram;
mod files;
mod members;
mod pools;
mod session;

pub use session::*;
