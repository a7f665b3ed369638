//! Egeria beside its peers: the data path against tmpfs and a bare copy, and unmodified programs
//! on a scratch volume, each with a table and JSON, the latter also as a page with pictures.
//!
//! - [`compatibility`]: unmodified programs on tmpfs, mount and library: worked, checked, killed.
//! - [`datapath`]: what one `pread`, `pwrite` or append costs through the preload library.
//! - [`demo`]: fio, RocksDB and everyday programs, timed and their data verified.
//! - [`everyday`]: everyday programs over a tree of files, beside tmpfs and a FUSE loopback.
//! - [`migration`]: moving the memory of a process, beside `migrate_pages`.
//! - [`names`]: what creating, opening, listing and removing names costs, beside the same.
//! - [`emulation`]: emulated machines beside the model.
//! - [`odin`]: the figures of OdinFS, on an emulated machine.
//! - [`overhead`]: what a steward's looking costs those who are looked at.
//! - [`relocation`]: what moving files gives beyond moving threads.
//! - [`sharpness`]: how well ways to see accesses tell used from unused memory.
//! - [`switches`]: what switching between more threads than cores takes.
//! - [`trials`]: how often `egeria trial` is right.
//! - [`placement`]: what came of the placement suite, which runs in a guest.
//! - [`pats`]: the figures of the PATS paper, on emulated machines.
//! - [`nthread`]: the figures of the NThread paper, on an emulated machine.
//!
//! Nothing of Egeria is measured from inside: the measured programs are children that the
//! preload library is loaded into, as any user's program would be.

mod colors;
pub mod compatibility;
pub mod datapath;
pub mod demo;
mod emulated;
pub mod emulation;
pub mod everyday;
mod experiment;
pub mod migration;
pub mod names;
pub mod nthread;
pub mod odin;
pub mod overhead;
mod own_file;
pub mod pats;
pub mod placement;
mod programs;
pub mod relocation;
mod served;
pub mod sharpness;
mod subjects;
pub mod switches;
pub mod trials;

pub use egeria_harness::{Error, Progress};
pub use emulated::EmulatedOptions;
pub use experiment::Watch;
pub use subjects::PlacesOptions;
