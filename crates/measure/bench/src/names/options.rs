//! How to measure.

use std::path::PathBuf;

use super::plan::{MAX_THREADS, Operation};

use crate::experiment::Watch;

/// How to measure what names cost.
pub struct NamesOptions<'a> {
    /// Rounds to take the medians over, at least 1.
    pub rounds: usize,
    /// Time of the timed calls of one case on one place in a round, ms.
    pub measurement_ms: u64,
    /// What to measure, in this order.
    pub operations: Vec<Operation>,
    /// Names in the directories, ascending.
    pub entries: Vec<usize>,
    /// Most threads, 1 or 2.
    pub threads: usize,
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// `egeria-names-worker`; `None`: `EGERIA_NAMES_WORKER`, else beside this executable or in `../lib/egeria`.
    pub worker: Option<PathBuf>,
    /// `egeria-loopback`; likewise, `EGERIA_LOOPBACK`.
    pub loopback: Option<PathBuf>,
    /// The tmpfs where everything is made.
    pub memory_directory: PathBuf,
    /// Progress and stopping.
    pub watch: Watch<'a>,
}

impl NamesOptions<'_> {
    /// The measurement `egeria-lab bench names` makes: 5 rounds, directories of 10 and 100,000 names.
    pub fn new(preload_library: PathBuf) -> NamesOptions<'static> {
        NamesOptions {
            rounds: 5,
            measurement_ms: 20,
            operations: Operation::ALL.to_vec(),
            entries: vec![10, 100_000],
            threads: MAX_THREADS,
            preload_library,
            worker: None,
            loopback: None,
            memory_directory: PathBuf::from("/dev/shm"),
            watch: Watch::default(),
        }
    }

    /// The same, short: fewer rounds, one thread, small directories.
    pub fn quick(preload_library: PathBuf) -> NamesOptions<'static> {
        NamesOptions {
            rounds: 3,
            measurement_ms: 10,
            entries: vec![10],
            threads: 1,
            ..NamesOptions::new(preload_library)
        }
    }
}
