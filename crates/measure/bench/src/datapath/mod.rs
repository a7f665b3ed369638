//! What one call on the data path costs: a file on a mount through the preload library, the same
//! calls on tmpfs, and a bare `memcpy` of the same pattern.
//!
//! # How it is measured
//!
//! 1. A volume of one pool in `/dev/shm`, and one of four for striped files, are made and mounted by this process;
//!    emulation is off.
//! 2. Four workers start, the same program each (`egeria-datapath-worker`): one under
//!    `LD_PRELOAD` with files on each mount, one with files on tmpfs, and one that copies to and from
//!    a file mapped exactly as a pool is. Everything is written and page-faulted before anything is timed.
//! 3. Each case is measured in rounds, on all it concerns in several short turns, in an order that rotates
//!    with the turn. Cases go from large pieces to small ones ([`plan::measuring_order`]).
//!    Threads are pinned, each has a file of its own, and the offsets come from one generator with
//!    one seed for all.
//! 4. The figures are medians over all turns. That the calls were in fact served directly is
//!    checked against the session's counters after every run.
//!
//! Flush and fence stay on in Egeria; the bare copy has neither.

mod driver;
mod options;
pub mod plan;
mod report;
mod subject;
pub mod worker;

pub use options::DatapathOptions;
pub use report::{DatapathReport, Row};

use egeria_harness::Result;

/// Measures the data path.
///
/// # Errors
/// When something cannot be set up, and when calls were passed to the kernel instead of being
/// served directly: figures of those would mean nothing.
pub fn run(options: &DatapathOptions<'_>) -> Result<DatapathReport> {
    driver::run(options)
}
