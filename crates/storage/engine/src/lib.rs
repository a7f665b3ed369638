//! Egeria's file system engine: a volume of one pool per NUMA node, used by many processes with equal roles.
//!
//! From the outside in: [`Volume`] and its operations (`namespace`, `data`), object logs (`log`), space (`space`), the
//! session that processes share (`session`), recovery and checks (`recovery`), and what observers can read
//! (`observe`). Pools are found, created and attached in `attach`. The format is in [`mod@format`]; DESIGN.md has the
//! reasons.

mod attach;
pub mod control;
mod data;
pub mod failpoint;
mod failure_cause;
pub mod format;
mod log;
mod namespace;
mod observe;
mod pools;
mod recovery;
mod requests;
pub mod rights;
mod session;
mod snapshot;
mod space;
mod sync;
// The harness itself is linked with this crate's library; a program can contain only one copy of it.
#[cfg(test)]
#[allow(dead_code)] // It has what other tests need, too.
#[path = "../../../verify/harness/src/fork.rs"]
mod fork;
#[cfg(test)]
mod test_volume;
mod types;

pub use attach::attach_volume::remove_sessions;
pub use attach::create::create_volume;
pub use attach::pool_locks::set_attach_patience;
pub use attach::private::{PrivateMemory, create_private, is_volume_private};
pub use data::delegation::DelegationRule;
pub use data::relocate::Relocated;
pub use egeria_media::{CallerDestination, CallerSource};
pub use failure_cause::{FailureCause, forget_failure_cause};
pub use namespace::path::{MAX_PATH_BYTES, PathEnd, PathStop, PathWalker};
pub use namespace::quotas::{Quota, QuotaLimits};
pub use observe::callers::CallerReport;
pub use observe::reports::{FileReport, ThreadReport};
pub use pools::{
    AddedPool, DrainProgress, DrainReport, GoOn, LostRange, RemovedPool, Unreadable, Upgraded,
    add_pool, add_pool_private, remove_pool, remove_pool_private, upgrade_private, upgrade_volume,
};
pub use recovery::check::{check_private, check_volume};
pub use recovery::scrub::{Pause, ScrubProgress, ScrubReport};
pub use recovery::undo::undo_repair;
pub use requests::*;
pub use session::admission::{LimitedBy, PoolAdmission};
pub use session::leases::{LeaseMount, Recall, work_for_kernel};
pub use session::lookup_references::LookupReferences;
pub use session::patience::{lock_within_patience, wait_within_patience, within_patience};
pub use session::volume::{FileReference, Reporter, Severity, Volume};
pub use session::write_back_errors::WriteBackErrors;
pub use snapshot::{LogEnd, Snapshot, SnapshotFile, SnapshotName};
pub use types::*;
