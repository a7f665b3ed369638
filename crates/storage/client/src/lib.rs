//! Egeria volumes for programs: attach one, use its files and directories without the kernel, and ask which NUMA
//! node holds what.
//!
//! ```no_run
//! # fn main() -> egeria_client::Result<()> {
//! use egeria_client::{OpenOptions, Volume};
//!
//! let volume = Volume::attach("/mnt/pmem0/pool")?;
//! let file = volume.open("/results", OpenOptions::new().write(true).create(true))?;
//! file.write_all_at(b"durable when this returns", 0)?;
//! for part in volume.locate("/results")? {
//!     println!("{} bytes from {} on node {}", part.length_bytes, part.offset_bytes, part.node);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What is stable
//!
//! The exports of this crate are Egeria's stable interface for Rust, with semantic versioning. All other crates of the
//! workspace are private, whatever they export: they may change with any commit. The C library and the Python package
//! use only this crate.
//!
//! # Paths
//!
//! Paths begin at the root of the volume, with or without a slash. Symbolic links are followed as Linux does it; a
//! path that leads out of the volume (`..` at the root, an absolute link) is `EXDEV`.
//!
//! # Permissions
//!
//! None are checked: any process that can attach a volume may read and write its pools. New files belong to the
//! effective user and group of the process, with the mode as given; the umask does not count.
//!
//! # Threads and processes
//!
//! Everything is `Send` and `Sync`. A [`Volume`] and the files opened from it belong to the process that attached it.
//! In a child made by `fork` every operation on them fails with `ENOTCONN` and changes nothing. Dropping them there
//! does not affect the parent's. The child attaches the volume again. A child made by `vfork`, or by `clone` with the
//! parent's memory, must not use this crate.

#![warn(missing_docs)]

mod error;
mod file;
mod kernel_file;
mod kinds;
mod lineage;
mod links;
mod names;
mod path;
mod stream;
mod volume;

pub use error::{Error, Result};
pub use file::{File, OpenOptions};
pub use kinds::{DirectoryEntry, FileType, Metadata, Part, Space};
pub use stream::Stream;
pub use volume::Volume;
