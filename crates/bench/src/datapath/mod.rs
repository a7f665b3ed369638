//! What one call on the data path costs: a file on a mount through the preload library, the same
//! calls on tmpfs, and a bare `memcpy` of the same pattern.
//!
//! # How it is measured
//!
//! 1. A volume of one pool in `/dev/shm` is made and mounted by this process; emulation is off.
//! 2. Three workers start, the same program each (`egeria-datapath-worker`): one under
//!    `LD_PRELOAD` with files on the mount, one with files on tmpfs, and one that copies to and from
//!    a file mapped exactly as a pool is. Everything is written and page-faulted before anything is timed.
//! 3. Each case is measured in rounds, on all three in several short turns, in an order that rotates
//!    with the turn. Cases go from large pieces to small ones ([`plan::measuring_order`]).
//!    Threads are pinned, each has a file of its own, and the offsets come from one generator with
//!    one seed for all three.
//! 4. The figures are medians over all turns. That the calls were in fact served directly is
//!    checked against the session's counters after every run.
//!
//! Flush and fence stay on in Egeria; the bare copy has neither.

mod driver;
pub mod plan;
mod report;
mod setup;
mod subject;
pub mod worker;

pub use report::{DatapathReport, Row};

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use egeria_harness::Result;
use egeria_harness::{self as harness, Progress};

/// How to measure the data path.
pub struct DatapathOptions<'a> {
    /// Rounds to take the medians over, at least 1.
    pub rounds: usize,
    /// Time of one case on one subject in a round, ms; split into short turns.
    pub measurement_ms: u64,
    /// Bytes of each thread's file; well beyond the last-level cache, a multiple of 64 KiB.
    pub file_bytes: u64,
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// `egeria-datapath-worker`; `None`: `EGERIA_DATAPATH_WORKER`, else beside this executable or in `../lib/egeria`.
    pub worker: Option<PathBuf>,
    /// The tmpfs where pool and files are made.
    pub memory_directory: PathBuf,
    /// Set it (as from a signal handler) to stop and clean up.
    pub cancel: Option<&'a AtomicBool>,
    /// Called before each step.
    pub progress: &'a dyn Fn(&Progress<'_>),
}

impl DatapathOptions<'_> {
    /// The measurement `egeria bench datapath` makes: 7 rounds, 512 MiB a thread, about a minute.
    pub fn new(preload_library: PathBuf) -> DatapathOptions<'static> {
        DatapathOptions {
            rounds: 7,
            measurement_ms: 100,
            file_bytes: 512 << 20,
            preload_library,
            worker: None,
            memory_directory: PathBuf::from("/dev/shm"),
            cancel: None,
            progress: &harness::silent,
        }
    }
}

/// Measures the data path.
///
/// # Errors
/// When something cannot be set up, and when calls were passed to the kernel instead of being
/// served directly: figures of those would mean nothing.
pub fn run(options: &DatapathOptions<'_>) -> Result<DatapathReport> {
    driver::run(options)
}
