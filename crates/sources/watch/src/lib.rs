//! Where live facts come from, and recordings of them.
//!
//! * [`session`]: facts of a volume's session, from its threads' counters and the kernel's view of them.
//! * [`processes`]: facts of processes, without a volume.
//! * [`trace`]: facts recorded to a file, and read back.
//! * [`living`]: where `/proc` shows a process whose first thread has ended.
//! * [`masks`]: the CPUs of threads, as owners allowed them and as applied.
//! * [`migration_times`]: what migration of memory took of each process.
//! * [`own`]: files and directories that no other user can read, redirect or replace.

mod callers;
mod dram;
mod files;
mod live;
pub mod living;
pub mod masks;
mod members;
pub mod migration_times;
mod nodes;
pub mod own;
mod pools;
pub mod processes;
mod scope;
pub mod session;
pub mod task;
pub mod trace;

pub use live::{LiveSource, Membership};
pub use scope::{Scope, control_group, hierarchy};
