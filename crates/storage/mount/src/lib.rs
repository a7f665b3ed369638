//! The mount: FUSE requests answered by the file system engine.
//!
//! A thin adapter. Semantics live in [`egeria_engine`]; permissions are the kernel's (`default_permissions`). This
//! crate has what only a FUSE server can do:
//!
//! - coherence between the kernel's page cache and processes that bypass the kernel (`state::coherence`),
//! - what the kernel may cache of names and attributes (`leases`, `serving::recalls`, `kernel::notify`),
//! - the lifetime of inode numbers that the kernel remembers (`state::known`),
//! - the control call, by which a program learns how to bypass the kernel (`operations::control`),
//! - the mount point itself: mounting, and unmounting with an error that lists its holders (`point`).
//!
//! One small file per family of requests is in `operations`. Module `serving::filesystem` only hands requests to them.

mod kernel;
mod leases;
mod operations;
mod options;
mod point;
mod replies;
mod serving;
mod session;
mod state;

pub use options::{LeaseTiming, MountOptions};
pub use point::endpoint::mount_point;
pub use point::error::{Holder, MountError};
pub use point::mountinfo::{Mounted, mounts};
pub use point::unmount::{answers, is_dead, unmount, unmount_lazily};
pub use replies::request_counts::{LATENCY_BOUNDS_NS, Latencies, RequestCounts};
pub use session::{MountHandle, serve, serve_counted, serve_socket, spawn};
