//! The mount: FUSE requests answered by the file system engine.
//!
//! A thin adapter. Semantics live in [`egeria_engine`]; permissions are the kernel's (`default_permissions`). This
//! crate has what only a FUSE server can do:
//!
//! - coherence between the kernel's page cache and processes that bypass the kernel (module `coherence`),
//! - what the kernel may cache of names and attributes (modules `leases`, `recalls`, `notify`, `notifiers`),
//! - the lifetime of inode numbers that the kernel remembers (module `known`),
//! - the control call, by which a program learns how to bypass the kernel (module `control`),
//! - the mount point itself: mounting, and unmounting with an error that lists its holders (modules `endpoint`,
//!   `unmount`).
//!
//! One small file per family of requests: `names`, `open`, `data`, `attributes`, `directory`, `xattr`. Module
//! `filesystem` only hands requests to them.

mod adapter;
mod attributes;
mod coherence;
mod control;
mod convert;
mod data;
mod directory;
mod endpoint;
mod error;
mod failures;
mod filesystem;
mod helper;
mod holders;
mod identity;
mod known;
mod leases;
mod merge;
mod mountinfo;
mod names;
mod negotiation;
mod notifiers;
mod notify;
mod open;
mod open_files;
mod place;
mod privilege;
mod recalls;
mod request_counts;
mod requests;
mod session;
mod tickets;
mod unmount;
mod waiting;
mod xattr;

pub use endpoint::mount_point;
pub use error::{Holder, MountError};
pub use mountinfo::{Mounted, mounts};
pub use request_counts::{LATENCY_BOUNDS_NS, Latencies, RequestCounts};
pub use session::{MountHandle, serve, serve_counted, serve_socket, spawn};
pub use unmount::{answers, unmount, unmount_lazily};

/// How to mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Let other users use the mount (`allow_other`).
    pub allow_other: bool,
    /// Refuse every change with `EROFS`. A volume attached read-only is always mounted so.
    pub read_only: bool,
    /// Threads that serve requests (0: two per CPU, at least 4).
    pub threads: usize,
    /// Take the mount point away when this process dies, however it dies. Needs `fusermount3`.
    pub auto_unmount: bool,
    /// Honour set-user-id programs and device files of the volume. Only root may set it. It is safe only when no other
    /// user can open the pools, since a user that can could create such files.
    pub trust_privileged_files: bool,
    /// When the kernel may remember names and attributes.
    pub leases: LeaseTiming,
    /// Bytes of files that the kernel may keep in its page cache for programs that only read them. `None`: a quarter
    /// of the memory; nothing on an emulated machine, because its memory would then not be read.
    pub page_cache_bytes: Option<u64>,
}

/// When the kernel may remember the names and attributes of an inode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaseTiming {
    /// Some time after they changed, and after programs past the kernel wanted to change them.
    #[default]
    Rested,
    /// At once, however often they change: for tests.
    AtOnce,
}
