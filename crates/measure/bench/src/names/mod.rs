//! What a name costs: creating, opening, looking at, listing, renaming, linking and removing files, on tmpfs, on a
//! volume under the preload library, on its mount without the library, and on a minimal FUSE loopback over tmpfs.
//!
//! # How it is measured
//!
//! 1. A volume of one pool in memory is made and mounted by this process, a loopback by another; emulation is off.
//! 2. Four workers start, the same program each (`egeria-names-worker`), one per place. Each makes two directories of
//!    10 names, which get 100,000 later.
//! 3. Each case is measured in rounds, on all four in turn, in an order that rotates with the round. A worker makes
//!    what calls need in batches and times the calls alone. Threads are pinned.
//! 4. For fresh volumes, each place of each round gets a volume, mounts and a worker that did nothing before. The worker
//!    makes all names in one directory, renames each once, and removes them.
//! 5. The figures are medians over the rounds.

mod driver;
mod fresh;
mod options;
pub mod plan;
mod report;
mod start;
pub mod worker;

pub use options::Selection;
pub use report::{NamesReport, NamesRow};
pub(crate) use report::{bar, bars, picture, times};

use egeria_harness::Result;

use crate::subjects::PlacesOptions;

/// Measures what names cost.
///
/// # Errors
/// When something cannot be set up, a call fails, or it was interrupted.
pub fn run(options: &PlacesOptions<'_>, selection: &Selection) -> Result<NamesReport> {
    driver::run(options, selection)
}
