//! Egeria beside its peers: the data path against tmpfs and a bare copy, and unmodified programs
//! on a scratch volume, each with a table and JSON, the latter also as a page with pictures.
//!
//! - [`datapath`]: what one `pread`, `pwrite` or append costs through the preload library.
//! - [`demo`]: fio, RocksDB and everyday programs, timed and their data verified.
//! - [`fuzz`]: forged volumes, recordings, machine files and requests, and everything done with them.
//! - [`kill`]: processes and mounts killed at random moments, and nothing that returned missing.
//! - [`nthread`]: the figures of the NThread paper, on an emulated machine.
//!
//! Nothing of Egeria is measured from inside: the measured programs are children that the
//! preload library is loaded into, as any user's program would be.

mod beside;
mod case_file;
mod chart;
pub mod crash;
pub mod datapath;
pub mod demo;
mod error;
pub mod fuzz;
pub mod kill;
pub mod nthread;
mod process;
mod progress;
mod scratch;
pub mod statistics;
mod text;

pub use case_file::Replayed;
pub use error::BenchError;
pub use progress::Progress;
