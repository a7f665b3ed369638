//! Facts of processes and threads, without a volume.
//!
//! * [`processes`]: windows of facts, from `/proc`; [`Scope`]: of which processes.
//! * [`task`]: what `/proc` says of one thread; [`living`]: the same if the first thread of the process has ended.
//! * [`masks`]: the CPUs of threads, as their owners allowed them and as applied.
//! * [`file_systems`]: numbers for file systems, shared by sources of facts about files.
//! * [`migration_times`]: what migration of memory took of each process.

pub mod file_systems;
mod kinds;
mod live;
pub mod living;
pub mod masks;
pub mod migration_times;
pub mod nodes;
pub mod processes;
mod scope;
pub mod task;

pub use live::{LiveSource, Membership};
pub use scope::{Scope, control_group, hierarchy};
