//! Everyday programs over a tree of files: `tar`, `cp`, `ls`, `find`, `du`, `rg`, `rsync`, `git`, Python's `zipfile` and
//! `rm`, on tmpfs, on a volume under the preload library, on its mount without the library, and on a minimal FUSE
//! loopback over tmpfs.
//!
//! # How it is measured
//!
//! 1. The tree is copied to tmpfs and from there, with `cp -a`, to each place.
//! 2. Every round runs every job at every place in turn, in an order that rotates with the round. What a job reads
//!    it has read once before; what it makes is removed before the next one.
//! 3. After every run its result is checked, by a program that goes the same way as the job: trees for names,
//!    contents, modes, times and link targets, archives for their bytes, repositories for their objects, and the
//!    output of what only looks for being that of the original tree. After the last round what the preload library
//!    made is also checked without it.
//! 4. The figures are medians over the rounds; `rm -rf` is timed on everything the others made.

mod check;
mod driver;
mod job;
mod options;
mod report;

pub use job::Job;
pub use options::{Selection, Source};
pub(crate) use report::picture;
pub use report::{EverydayReport, EverydayRow};

use egeria_harness::Result;

use crate::subjects::PlacesOptions;

/// Measures everyday programs. A program that fails, or whose result is wrong, does not stop the others: see
/// [`EverydayReport::failures`]; one that is missing is left out, see [`EverydayReport::skipped`].
///
/// # Errors
/// When something cannot be set up, or it was interrupted.
pub fn run(options: &PlacesOptions<'_>, selection: &Selection) -> Result<EverydayReport> {
    driver::run(options, selection)
}
