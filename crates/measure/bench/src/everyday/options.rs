//! How to measure.

use std::path::PathBuf;

use super::job::Job;

use crate::experiment::Watch;

/// The tree that programs work on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A copy of this one.
    Directory(PathBuf),
    /// A small one, made for it.
    Made,
}

/// How to measure everyday programs.
pub struct EverydayOptions<'a> {
    /// Rounds to take the medians over, at least 1.
    pub rounds: usize,
    /// What to run, in this order.
    pub jobs: Vec<Job>,
    /// On what.
    pub source: Source,
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

impl EverydayOptions<'_> {
    /// The measurement `egeria-lab bench everyday` makes: 5 rounds on a copy of `/usr/include`.
    pub fn new(preload_library: PathBuf) -> EverydayOptions<'static> {
        EverydayOptions {
            rounds: 5,
            jobs: Job::ALL.to_vec(),
            source: Source::Directory(PathBuf::from("/usr/include")),
            preload_library,
            worker: None,
            loopback: None,
            memory_directory: PathBuf::from("/dev/shm"),
            watch: Watch::default(),
        }
    }

    /// The same, short: 3 rounds on a small tree made for it.
    pub fn quick(preload_library: PathBuf) -> EverydayOptions<'static> {
        EverydayOptions {
            rounds: 3,
            source: Source::Made,
            ..EverydayOptions::new(preload_library)
        }
    }
}
