//! Requests of front ends for the engine as a whole, and the results.

use crate::format::MAX_POOLS;
use crate::types::AllocationPolicy;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why a volume cannot be created, attached or checked: one line with cause and hint.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct VolumeError {
    /// Cause and hint.
    pub message: String,
    /// The errno that fits best.
    pub errno: i32,
}

/// A pool to make: `NODE:PATH:SIZE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolRequest {
    /// Node the pool belongs to.
    pub node: u16,
    /// File or device.
    pub path: PathBuf,
    /// Size in bytes (None: the present size of the file or device).
    pub bytes: Option<u64>,
}

/// How to make a volume.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Overwrite pools that hold a volume already.
    pub force: bool,
    /// Owner, group and mode of the root directory (None: caller's, 0755).
    pub root: Option<(u32, u32, u32)>,
}

/// How to attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// Join the session, or recover the volume and create one (mount, command line, Rust API).
    CreateOrJoin,
    /// Only join an existing session (preload).
    Join,
    /// Join or create, and refuse every change with `EROFS`; possible also where this process has the volume attached
    /// for changes.
    ReadOnly,
}

/// What recovery did when a session was made: it completes what killed processes, or those that lost power, left
/// unfinished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// All processes that used the session before this one ended without detaching. `false` after a restart of the
    /// machine, which ends sessions without a trace.
    pub is_after_death: bool,
    /// Journal slots of dead threads with an operation that was committed and not completed; recovery completed it.
    pub dead_slots: u64,
    /// Commit words stored to complete these operations.
    pub replayed_records: u64,
    /// Inodes without a name, freed.
    pub freed_orphans: u64,
    /// Inodes with logs that were read.
    pub inodes: u64,
    /// Damage met, one line each, up to [`RecoveryReport::MAX_DAMAGE`].
    pub damage: Vec<String>,
    /// Further damage.
    pub more_damage: u64,
    /// How long it took.
    pub duration: Duration,
}

impl RecoveryReport {
    /// Lines of damage that are kept.
    pub const MAX_DAMAGE: usize = 100;

    /// Whether anything had to be recovered.
    pub fn has_recovered(&self) -> bool {
        self.is_after_death || self.dead_slots > 0 || self.freed_orphans > 0
    }
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_after_death {
            write!(
                formatter,
                "all who used the volume before ended without detaching; "
            )?;
        }
        write!(
            formatter,
            "recovered in {} ms: {} records replayed for {} slots of dead owners, {} orphans freed, {} inodes read",
            self.duration.as_millis(),
            self.replayed_records,
            self.dead_slots,
            self.freed_orphans,
            self.inodes
        )
    }
}

/// Options of an attach. Those of the session are decided by its creator, and ignored by processes that join it.
#[derive(Clone, Debug, Default)]
pub struct AttachOptions {
    /// Emulated or declared machine; None: this one.
    pub machine: Option<egeria_machine::Machine>,
    /// Name under which other volumes of this owner share the emulated machine: those that gave the same machine and
    /// name. None: only this volume uses it.
    pub share_machine: Option<String>,
    /// Which memory of an emulated machine the pools lie on; None: persistent memory, or another kind if there is
    /// none.
    pub memory: Option<egeria_machine::MemoryKind>,
    /// Where new data goes.
    pub allocation: Option<AllocationPolicy>,
    /// Which code of this process handles faults of pool memory.
    pub faults: FaultHandling,
}

/// Which code handles SIGBUS and SIGSEGV of pool memory, which become `EIO` of the call: for instance if a pool shrinks
/// while it is mapped. Other faults go to the handler that was installed before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultHandling {
    /// The engine installs a handler with the first attach ([`egeria_media::guard::install`]).
    #[default]
    Engine,
    /// The caller has handlers of its own that call [`egeria_media::guard::handle`].
    Caller,
}

impl FaultHandling {
    pub(crate) fn prepare(self) -> Result<(), VolumeError> {
        if self == FaultHandling::Caller {
            return Ok(());
        }
        egeria_media::guard::install().map_err(|error| {
            failure(
                error.raw_os_error().unwrap_or(libc::EIO),
                format!("cannot catch faults of pool memory: {error}; see whether sigaction is forbidden here"),
            )
        })
    }
}

/// Counters of one thread or summed over many, all since the session began. Indexed by pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes read from each pool.
    pub read_bytes: [u64; MAX_POOLS],
    pub written_bytes: [u64; MAX_POOLS],
    /// Bytes read or written on the pool of the node where the thread ran.
    pub local_bytes: u64,
    /// Bytes on other nodes.
    pub remote_bytes: u64,
    /// Bytes on other nodes, by the pool they lie in.
    pub remote_of_pool_bytes: [u64; MAX_POOLS],
    /// Calls the preload library served itself.
    pub direct_calls: u64,
    /// Calls on files of a mount that the preload library passed on to the kernel.
    pub passed_calls: u64,
    /// Requests the mount served.
    pub mount_requests: u64,
    /// Reads that found data with a wrong checksum.
    pub checksum_failures: u64,
    /// Requests that waited for admission.
    pub admission_waits: u64,
    /// How long, in all, ns.
    pub admission_waited_ns: u64,
    /// Bytes that delegates read or wrote for other threads, all of them local.
    pub delegated_bytes: u64,
    /// Requests for admission to each pool, while there were limits.
    pub asked: [AskedOfPool; MAX_POOLS],
}

/// Requests that asked for admission to a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskedOfPool {
    pub requests: u64,
    /// Those that write.
    pub writes: u64,
    pub bytes: u64,
}

impl AskedOfPool {
    /// Add what was asked of another pool.
    pub fn add(&mut self, other: AskedOfPool) {
        self.requests = self.requests.saturating_add(other.requests);
        self.writes = self.writes.saturating_add(other.writes);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// The requests since an earlier reading.
    pub fn since(self, before: AskedOfPool) -> AskedOfPool {
        AskedOfPool {
            requests: self.requests.saturating_sub(before.requests),
            writes: self.writes.saturating_sub(before.writes),
            bytes: self.bytes.saturating_sub(before.bytes),
        }
    }
}

/// Index of an open-description slot of the session (docs/explanation/preload.md, "Positions").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptionSlot(pub u32);

/// Whether `check` repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair<'a> {
    /// Check only: the pools do not change.
    No,
    /// Repair what can be repaired.
    Yes {
        /// New file for the old content of changed blocks, for [`undo_repair`](crate::undo_repair).
        undo: Option<&'a std::path::Path>,
    },
}

impl From<bool> for Repair<'_> {
    /// `true` repairs without an undo file.
    fn from(repair: bool) -> Self {
        if repair {
            Repair::Yes { undo: None }
        } else {
            Repair::No
        }
    }
}

/// One thing `check` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What and where, in one line.
    pub what: String,
    /// Path or inode it means, when known.
    pub affects: String,
    /// It was repaired (or, without `repair`, can be).
    pub repairable: bool,
}

/// Result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Everything wrong.
    pub findings: Vec<Finding>,
    /// Inodes looked at.
    pub inodes: u64,
    /// Directories among them.
    pub directories: u64,
    pub used_blocks: u64,
    pub repaired: u64,
}

/// A `VolumeError`.
pub(crate) fn failure(errno: i32, message: impl Into<String>) -> VolumeError {
    VolumeError {
        message: message.into(),
        errno,
    }
}

/// A `VolumeError` that names the action and the file.
pub(crate) fn io_failure(
    doing: &str,
    path: &Path,
    error: &std::io::Error,
    hint: &str,
) -> VolumeError {
    failure(
        error.raw_os_error().unwrap_or(libc::EIO),
        format!("cannot {doing} {}: {error}; {hint}", path.display()),
    )
}
