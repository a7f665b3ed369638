//! The processes that are killed: those of workers, and the mount.

use super::ledger::Ledger;
use crate::crew::Member;
use crate::names::named;
use egeria_harness::process::check_cancel;
use egeria_harness::{Error, Result};
use rustix::mount::{UnmountFlags, unmount};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

named! {
    /// How a process reaches the files.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum AccessPath {
        /// Past the mount, by the preload library.
        Preload = "preload",
        /// Through the mount.
        Mount = "mount",
        /// By the engine it has attached itself.
        Engine = "engine",
    }
}

/// Threads of a process.
const THREADS: u64 = 2;
/// How long a mount may take to be ready, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where everything lies.
pub struct Paths {
    pub worker: PathBuf,
    pub preload_library: PathBuf,
    pub ledger: PathBuf,
    /// The first pool; nothing where somebody else has mounted the volume.
    pub pool: Option<PathBuf>,
    pub mount_point: PathBuf,
}

/// What a process does until it is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Changes files.
    Work(AccessPath),
    /// Reads snapshots.
    Snapshots,
}

impl Role {
    /// How the process reaches the files.
    pub fn access_path(self) -> AccessPath {
        match self {
            Role::Work(access_path) => access_path,
            Role::Snapshots => AccessPath::Engine,
        }
    }
}

/// A process that is killed when dropped.
pub struct WorkerProcess {
    pub role: Role,
    pub(crate) member: Member,
}

impl WorkerProcess {
    pub fn start(role: Role, paths: &Paths, pool: &Path) -> Result<WorkerProcess> {
        let ledger = &paths.ledger;
        let arguments = match role {
            Role::Work(access_path) => arguments(access_path, ledger, THREADS, pool),
            Role::Snapshots => vec!["snapshots".into(), ledger.into(), pool.into()],
        };
        WorkerProcess::play(role, &arguments, paths)
    }

    /// Starts it with the command line of any part.
    pub fn play<S: AsRef<OsStr>>(
        role: Role,
        arguments: &[S],
        paths: &Paths,
    ) -> Result<WorkerProcess> {
        let member = Member::start(&paths.worker, Stdio::null(), |command| {
            command.args(arguments).current_dir(&paths.mount_point);
            if role.access_path() == AccessPath::Preload {
                command.env("LD_PRELOAD", &paths.preload_library);
            }
        })?;
        Ok(WorkerProcess { role, member })
    }

    /// What is wrong with an end that nobody asked for.
    pub fn fault(&self, status: ExitStatus) -> Option<String> {
        let role = self.role;
        let fault = || format!("a process ({role:?}) ended: {status}");
        (!status.success()).then(fault)
    }
}

/// Command line of a process of workers.
fn arguments(access_path: AccessPath, ledger: &Path, threads: u64, pool: &Path) -> Vec<OsString> {
    let threads = threads.to_string();
    match access_path {
        AccessPath::Engine => vec!["engine".into(), ledger.into(), threads.into(), pool.into()],
        AccessPath::Preload | AccessPath::Mount => {
            vec!["files".into(), ledger.into(), threads.into()]
        }
    }
}

/// The process that serves the mount point.
pub struct Mount {
    process: Option<Member>,
    directory: PathBuf,
}

impl Mount {
    /// Returns when requests are answered.
    pub fn start(
        paths: &Paths,
        pool: &Path,
        ledger: &Ledger,
        cancel: Option<&AtomicBool>,
    ) -> Result<Mount> {
        let mounts = &ledger.header().mounts;
        let before = mounts.load(Ordering::Acquire);
        let process = Member::start(&paths.worker, Stdio::null(), |command| {
            command.arg("mount");
            command.args([paths.ledger.as_path(), pool, &paths.mount_point]);
        })?;
        let mut mount = Mount {
            process: Some(process),
            directory: paths.mount_point.clone(),
        };
        let deadline = Instant::now() + PATIENCE;
        while mounts.load(Ordering::Acquire) == before {
            check_cancel(cancel)?;
            let ended = match &mut mount.process {
                Some(process) => process.ended(Duration::from_millis(1))?,
                None => None,
            };
            if ended.is_some() || Instant::now() > deadline {
                return Err(Error::failed(
                    "the mount did not come up; see its message above",
                ));
            }
        }
        Ok(mount)
    }

    pub fn id(&mut self) -> Option<u32> {
        self.process.as_mut().map(Member::id)
    }

    /// Kills it and takes the mount point away.
    pub fn kill(self) {}

    /// Unmounts and waits for its end.
    pub fn end(mut self) -> Result<()> {
        egeria_mount::unmount(&self.directory).map_err(Error::failed)?;
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        match process.ended(PATIENCE)? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Error::failed(format!(
                "the mount ended with {status}; see its message above"
            ))),
            None => Err(Error::failed(format!(
                "the mount did not end within {} s of its unmount; it was killed",
                PATIENCE.as_secs()
            ))),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.process.take().is_some() {
            take_away(&self.directory);
        }
    }
}

/// Take a dead mount away from under those who still sit in it.
fn take_away(directory: &Path) {
    if unmount(directory, UnmountFlags::DETACH).is_ok() {
        return;
    }
    // Who is not root asks the helper.
    let _ = Command::new("fusermount3")
        .args(["-u", "-z", "--"])
        .arg(directory)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
}
