//! How to measure.

use std::path::PathBuf;

use crate::experiment::Watch;

/// How to measure the data path.
pub struct DatapathOptions<'a> {
    /// Rounds to take the medians over, at least 1.
    pub rounds: usize,
    /// Time of one case on one subject in a round, ms; split into short turns.
    pub measurement_ms: u64,
    /// Bytes of each thread's file; well beyond the last-level cache, a multiple of 2 MiB.
    pub file_bytes: u64,
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// `egeria-datapath-worker`; `None`: `EGERIA_DATAPATH_WORKER`, else beside this executable or in `../lib/egeria`.
    pub worker: Option<PathBuf>,
    /// The tmpfs where pool and files are made.
    pub memory_directory: PathBuf,
    /// Progress and stopping.
    pub watch: Watch<'a>,
}

impl DatapathOptions<'_> {
    /// The measurement `egeria-lab bench datapath` makes: 7 rounds, 512 MiB a thread, about two minutes.
    pub fn new(preload_library: PathBuf) -> DatapathOptions<'static> {
        DatapathOptions {
            rounds: 7,
            measurement_ms: 100,
            file_bytes: 512 << 20,
            preload_library,
            worker: None,
            memory_directory: PathBuf::from("/dev/shm"),
            watch: Watch::default(),
        }
    }
}
