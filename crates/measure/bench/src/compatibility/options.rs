//! What is run, where, and how.

use std::path::PathBuf;
use std::time::Duration;

use super::job::{Job, jobs};
use crate::experiment::Watch;

/// Where a program runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Tmpfs,
    /// A volume's mount, without the preload library.
    Mount,
    /// The same with the preload library.
    Library,
}

impl Place {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Place; 3] = [Place::Tmpfs, Place::Mount, Place::Library];

    /// For rows and errors.
    pub fn name(self) -> &'static str {
        match self {
            Place::Tmpfs => "tmpfs",
            Place::Mount => "mount",
            Place::Library => "library",
        }
    }

    pub fn named(name: &str) -> Option<Place> {
        Place::ALL.into_iter().find(|place| place.name() == name)
    }
}

/// What is run, and how.
pub struct CompatibilityOptions<'a> {
    pub jobs: Vec<Job>,
    pub places: Vec<Place>,
    /// How long a program works before it is killed.
    pub load: Duration,
    /// Installs what is missing before the first job.
    pub install: bool,
    /// Shows the commands and the output of sections that fail.
    pub trace: bool,
    /// Where programs are that do not come from Debian; `None`: the user's usual place.
    pub tools_directory: Option<PathBuf>,
    /// `egeria`; `None`: `EGERIA`, else next to this executable.
    pub egeria: Option<PathBuf>,
    /// `libegeria_preload.so`.
    pub preload_library: PathBuf,
    /// The tmpfs where everything is made.
    pub memory_directory: PathBuf,
    /// Progress and stopping.
    pub watch: Watch<'a>,
}

impl CompatibilityOptions<'_> {
    /// All jobs on all places.
    pub fn new(preload_library: PathBuf) -> CompatibilityOptions<'static> {
        CompatibilityOptions {
            jobs: jobs(),
            places: Place::ALL.to_vec(),
            load: Duration::from_secs(3),
            install: false,
            trace: false,
            tools_directory: None,
            egeria: None,
            preload_library,
            memory_directory: PathBuf::from("/dev/shm"),
            watch: Watch::default(),
        }
    }
}
