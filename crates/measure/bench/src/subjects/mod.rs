//! The places that names and everyday programs are measured on: tmpfs, a volume's mount with the preload library and
//! without it, and a minimal loopback over tmpfs through the same FUSE library.

mod loopback;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use egeria_harness::program::loadable;
use egeria_harness::{Error, Result};
use egeria_scratch::{ScratchVolume, memory_directory};
use tempfile::TempDir;

use loopback::Loopback;

/// A place to measure on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Subject {
    /// tmpfs.
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

/// Where a measurement finds what it needs.
pub(crate) struct Needs<'a> {
    /// The tmpfs for all files.
    pub memory_directory: &'a Path,
    /// Size of the volume's pool.
    pub pool_bytes: u64,
    /// `libegeria_preload.so`.
    pub preload_library: &'a Path,
    /// `egeria-loopback`; `None`: beside this executable.
    pub loopback: Option<&'a Path>,
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
    /// Mounts what is to be mounted, and makes an empty directory on each.
    pub(crate) fn set_up(needs: &Needs<'_>) -> Result<Places> {
        let peers = memory_directory(needs.memory_directory)?;
        let library = loadable(needs.preload_library, peers.path())?;
        let (memory, bytes) = (needs.memory_directory, needs.pool_bytes);
        let scratch = ScratchVolume::make(memory, &[0], bytes, None)?;
        let backing = peers.path().join("loopback");
        make(&backing)?;
        let loopback = Loopback::start(needs.loopback, &backing)?;
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
        Ok(Places {
            directories,
            library,
            _loopback: loopback,
            scratch,
            peers,
        })
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
