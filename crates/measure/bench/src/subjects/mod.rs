//! The places that names and everyday programs are measured on: tmpfs, a volume's mount with the preload library and
//! without it, and a minimal loopback over tmpfs through the same FUSE library.

mod loopback;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use egeria_harness::program::{find_beside, loadable};
use egeria_harness::{Error, Result};
use egeria_scratch::{ScratchVolume, memory_directory};
use tempfile::TempDir;

use crate::experiment::Watch;
use crate::served;
use loopback::Loopback;

/// Name of the program that is measured.
const WORKER: &str = "egeria-names-worker";

/// A place to measure on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    Tmpfs,
    /// The volume, with the preload library.
    Run,
    /// The volume's mount, without it.
    Mount,
    /// tmpfs through a minimal file system over FUSE.
    Loopback,
}

/// All of them, as they stand in reports.
pub(crate) const SUBJECTS: [Subject; 4] = [
    Subject::Tmpfs,
    Subject::Run,
    Subject::Mount,
    Subject::Loopback,
];

impl Subject {
    /// For reports and errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Subject::Tmpfs => "tmpfs",
            Subject::Run => "run",
            Subject::Mount => "mount",
            Subject::Loopback => "loopback",
        }
    }
}

/// What a bench on all places is given.
#[derive(Clone)]
pub struct PlacesOptions<'a> {
    /// Rounds to take the medians over, at least 1.
    pub rounds: usize,
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

impl PlacesOptions<'_> {
    pub fn new(preload_library: PathBuf) -> PlacesOptions<'static> {
        PlacesOptions {
            rounds: 5,
            preload_library,
            worker: None,
            loopback: None,
            memory_directory: PathBuf::from("/dev/shm"),
            watch: Watch::default(),
        }
    }

    /// The measured program of names, which also lists trees.
    pub(crate) fn find_worker(&self) -> Result<PathBuf> {
        find_beside(self.worker.as_deref(), WORKER, "EGERIA_NAMES_WORKER")
    }
}

/// All places, ready; everything is gone when it is dropped.
pub(crate) struct Places {
    directories: [PathBuf; 4],
    library: PathBuf,
    /// Ends before what it serves.
    _loopback: Loopback,
    scratch: ScratchVolume,
    peers: TempDir,
}

impl Places {
    /// Mounts what is to be mounted, with a pool of so many bytes, and makes an empty directory on each.
    pub(crate) fn set_up(options: &PlacesOptions<'_>, pool_bytes: u64) -> Result<Places> {
        let memory = &options.memory_directory;
        let peers = memory_directory(memory)?;
        let library = loadable(&options.preload_library, peers.path())?;
        let scratch = ScratchVolume::make(memory, &[0], pool_bytes, None)?;
        let backing = peers.path().join("loopback");
        make(&backing)?;
        let loopback = Loopback::start(options.loopback.as_deref(), &backing)?;
        let roots = [
            peers.path(),
            scratch.mount_directory(),
            scratch.mount_directory(),
            loopback.directory(),
        ];
        let mut directories: [PathBuf; 4] = Default::default();
        for ((directory, root), subject) in directories.iter_mut().zip(roots).zip(SUBJECTS) {
            *directory = root.join(subject.name());
        }
        // One that the loopback serves is below its own source, not beside it.
        for directory in &directories {
            make(directory)?;
        }
        let places = Places {
            directories,
            library,
            _loopback: loopback,
            scratch,
            peers,
        };
        places.check_library(&options.find_worker()?)?;
        Ok(places)
    }

    /// Fails if the preload library does not serve this volume, as one of another build.
    fn check_library(&self, worker: &Path) -> Result<()> {
        let before = self.scratch.volume().counters();
        let mut list = self.command(Subject::Run, worker);
        list.arg("print").arg(self.directory(Subject::Run));
        let failed = |error| {
            let doing = format!("cannot start {}", worker.display());
            Error::io(doing, error, "build it again")
        };
        list.output().map_err(failed)?;
        let after = self.scratch.volume().counters();
        served::check(&before, &after, 1, "listing a directory")
    }

    /// The directory of this place.
    pub(crate) fn directory(&self, subject: Subject) -> &Path {
        &self.directories[subject as usize]
    }

    /// On tmpfs, beside all places: what they copy from.
    pub(crate) fn backstage(&self) -> &Path {
        self.peers.path()
    }

    /// A command that runs at a place: with the preload library where that is what is measured.
    pub(crate) fn command(&self, subject: Subject, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_remove("LD_PRELOAD");
        if subject == Subject::Run {
            command.env("LD_PRELOAD", &self.library);
            command.env("EGERIA_MOUNT", self.scratch.mount_directory());
        }
        command
    }

    /// The preload library, as it is loaded.
    pub(crate) fn library(&self) -> &Path {
        &self.library
    }
}

fn make(directory: &Path) -> Result<()> {
    let failed = |error| {
        let doing = format!("cannot make {}", directory.display());
        Error::io(doing, error, "see the mount")
    };
    std::fs::create_dir_all(directory).map_err(failed)
}
