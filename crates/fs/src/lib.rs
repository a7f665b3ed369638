//! Egeria's file system engine: a volume of one pool per NUMA node, used by many equal processes.
//!
//! From the outside in: [`Volume`] and its operations (`namespace`, `rename`, `attributes`, `read`,
//! `write`, `allocate`), object logs (`log`, `apply`, `compaction`), space (`space`, `numbers`,
//! `operation`), the session that processes share (`session`, `slots`, `opens`, `descriptions`), and
//! what puts things right (`recover`, `reap`, `check`). The format is in [`format`]; DESIGN.md has the
//! reasons.

mod allocate;
mod apply;
mod attach;
mod attributes;
mod check;
mod committed;
mod compaction;
pub mod control;
mod create;
mod current;
mod descriptions;
mod direct;
mod directory;
pub mod format;
mod guess;
mod index;
mod inode;
mod log;
mod look;
mod named;
mod namespace;
mod nodes;
mod notes;
mod numbers;
mod observe;
mod opens;
mod operation;
mod overwrite;
mod patience;
mod pool_locks;
mod pools;
mod private;
mod read;
mod reap;
mod recover;
pub mod refusal;
mod remembered;
mod rename;
mod requests;
mod runs;
mod scrub;
mod segments;
mod session;
mod session_line;
mod slots;
mod space;
mod sums;
mod sync;
mod tenure;
mod trust;
mod types;
mod undo;
mod unlocked;
mod verified;
mod volume;
mod write;

pub use check::check_volume;
pub use create::create_volume;
pub use observe::{FileReport, ThreadReport};
pub use patience::{lock_within_patience, within_patience};
pub use private::{PrivateMemory, check_private, create_private, is_volume_private};
pub use remembered::KernelMemory;
pub use requests::*;
pub use scrub::{Pause, ScrubProgress, ScrubReport};
pub use types::*;
pub use undo::undo_repair;
pub use volume::{FileReference, Reporter, Volume};
