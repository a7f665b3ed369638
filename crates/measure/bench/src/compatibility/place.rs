//! Where jobs run: an empty directory on tmpfs, or a volume of their own that `egeria run` mounts.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use egeria_harness::process::{self, Cancel, Group, last_words};
use egeria_harness::program::{find_beside, loadable};
use egeria_harness::{Error, Result};
use egeria_scratch::{check_room, detach, memory_directory};
use serde::Deserialize;
use tempfile::TempDir;

use super::job::Job;
use super::options::{CompatibilityOptions, Place};
use super::user::{OpenDevice, User, is_root};

/// Size of a job's pool; a file in memory that takes only what is written.
const POOL_SIZE: &str = "4GiB";
/// Memory that a job's files and its input take at most.
const ROOM_BYTES: u64 = 3 << 30;
/// How long commands of Egeria may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A directory on tmpfs that is removed in the end, and the build in it.
pub(super) struct Scratch {
    /// Ends before the directory that it is in: fields drop in order.
    device: Option<OpenDevice>,
    directory: TempDir,
    egeria: PathBuf,
    library: PathBuf,
}

impl Scratch {
    /// # Errors
    /// When there is no room, or no build of Egeria.
    pub(super) fn make(options: &CompatibilityOptions<'_>) -> Result<Scratch> {
        let memory = &options.memory_directory;
        check_room(memory, ROOM_BYTES, "free some")?;
        let egeria = find_beside(options.egeria.as_deref(), "egeria", "EGERIA")?;
        let directory = memory_directory(memory)?;
        let library = loadable(&options.preload_library, directory.path())?;
        let mut scratch = Scratch {
            device: None,
            directory,
            egeria,
            library,
        };
        if is_root() {
            scratch
                .let_nobody_in()
                .map_err(|error| scratch.failed(error))?;
        }
        Ok(scratch)
    }

    /// The build may lie where only root may look.
    fn let_nobody_in(&mut self) -> std::io::Result<()> {
        let own = self.directory.path();
        self.device = OpenDevice::make(&own.join("devices"))?;
        fs::set_permissions(own, fs::Permissions::from_mode(0o711))?;
        for (file, name) in [
            (&mut self.egeria, "egeria"),
            (&mut self.library, "preload.so"),
        ] {
            let copy = own.join(format!("build-{name}"));
            fs::copy(&*file, &copy)?;
            *file = copy;
        }
        Ok(())
    }

    /// A new directory of the user.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn directory(&self, name: &str, user: User) -> Result<PathBuf> {
        let directory = self.directory.path().join(name);
        let made = fs::create_dir(&directory)
            .and_then(|()| fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)))
            .and_then(|()| user.own(&directory));
        made.map_err(|error| self.failed(error))?;
        Ok(directory)
    }

    /// A new directory of this process, and one of the user's in it.
    fn directories(&self, name: &str, user: User) -> Result<(PathBuf, PathBuf)> {
        let own = self.directory(name, User::Same)?;
        let open = fs::Permissions::from_mode(0o711);
        fs::set_permissions(&own, open).map_err(|error| self.failed(error))?;
        let notes = self.directory(&format!("{name}/notes"), user)?;
        Ok((own, notes))
    }

    fn failed(&self, error: std::io::Error) -> Error {
        let doing = format!("cannot prepare {}", self.directory.path().display());
        Error::io(doing, error, "is the tmpfs full?")
    }
}

/// Calls of programs on a volume.
pub(super) struct Counts {
    direct: u64,
    mount_requests: u64,
}

impl Counts {
    /// Those of two volumes.
    fn with(self, other: Counts) -> Counts {
        Counts {
            direct: self.direct + other.direct,
            mount_requests: self.mount_requests + other.mount_requests,
        }
    }

    /// Share of the calls that the preload library served itself; `None` without any.
    pub(super) fn direct_share(&self) -> Option<f64> {
        let all = self.direct + self.mount_requests;
        (all > 0).then(|| self.direct as f64 / all as f64)
    }
}

/// A place of one job.
pub(super) struct Ground {
    place: Place,
    /// Where the job's directories are.
    root: PathBuf,
    /// A directory on tmpfs that this process alone writes into: users plant no links there.
    own: PathBuf,
    /// A directory of the user's in it.
    notes: PathBuf,
    /// Where the job's directories on a second volume are, if it needs one.
    second: Option<PathBuf>,
    mounted: Vec<Mounted>,
}

impl Ground {
    /// # Errors
    /// When the volume cannot be made or mounted.
    pub(super) fn make(
        place: Place,
        scratch: &Scratch,
        job: &Job,
        user: User,
        cancel: Cancel<'_>,
    ) -> Result<Ground> {
        if place == Place::Tmpfs {
            return Ground::tmpfs(scratch, job, "tmpfs", user);
        }
        let name = format!("{}-{}", job.name, place.name());
        let (own, notes) = scratch.directories(&name, user)?;
        let volumes = if job.needs_second { 2 } else { 1 };
        let mount = |number| {
            let name = format!("pool{number}");
            Mounted::start(place, scratch, user, (&own, &notes, &name), cancel)
        };
        let mounted: Vec<Mounted> = (1..=volumes).map(mount).collect::<Result<_>>()?;
        let root = |mounted: &Mounted| mounted.directory.clone();
        Ok(Ground {
            place,
            root: mounted.first().map(root).unwrap_or_default(),
            second: mounted.get(1).map(root),
            own,
            notes,
            mounted,
        })
    }

    /// A place on tmpfs with this name.
    ///
    /// # Errors
    /// When its directory cannot be made.
    pub(super) fn tmpfs(scratch: &Scratch, job: &Job, name: &str, user: User) -> Result<Ground> {
        let (own, notes) = scratch.directories(&format!("{}-{name}", job.name), user)?;
        Ok(Ground {
            place: Place::Tmpfs,
            root: notes.clone(),
            second: job.needs_second.then(|| notes.join("second")),
            own,
            notes,
            mounted: Vec::new(),
        })
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// A directory of the job on this place; a section makes it.
    pub(super) fn directory(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// What belongs to a directory of the job on the second volume.
    pub(super) fn second(&self, directory: &Path) -> Option<PathBuf> {
        let name = directory.file_name()?;
        Some(self.second.as_ref()?.join(name))
    }

    /// A directory on tmpfs that only this process writes into.
    pub(super) fn own(&self) -> &Path {
        &self.own
    }

    /// A directory of the user's on tmpfs, for what does not belong on the place.
    pub(super) fn notes(&self) -> &Path {
        &self.notes
    }

    /// The processes that serve the mounts.
    pub(super) fn holders(&self) -> Vec<u32> {
        let processes = self.mounted.iter().map(|mounted| mounted.process_id);
        processes.collect()
    }

    /// Has a command use the preload library, if that is what is tried.
    pub(super) fn enter(&self, command: &mut Command) {
        let Some(mounted) = self.mounted.first() else {
            return;
        };
        command.env("EGERIA_MOUNT", &mounted.directory);
        if let Some(library) = &mounted.library {
            command.env("LD_PRELOAD", library);
        }
    }

    /// Unmounts, checks the volumes, and removes everything.
    ///
    /// # Errors
    /// When a mount does not end well, or a volume is damaged.
    pub(super) fn end(mut self, cancel: Cancel<'_>) -> Result<Option<Counts>> {
        let mounted = std::mem::take(&mut self.mounted).into_iter();
        let counts: Result<Vec<Counts>> = mounted.map(|mounted| mounted.end(cancel)).collect();
        remove(&self.own);
        Ok(counts?.into_iter().reduce(Counts::with))
    }
}

/// A volume that `egeria run` has mounted for a command that waits.
struct Mounted {
    group: Group,
    process_id: u32,
    /// The command ends when this is closed.
    input: Option<ChildStdin>,
    directory: PathBuf,
    egeria: PathBuf,
    user: User,
    /// What `egeria run` printed.
    said: PathBuf,
    pool: PathBuf,
    report: PathBuf,
    notes: PathBuf,
    /// What programs are started with; `None`: they use the mount.
    library: Option<PathBuf>,
}

/// What `egeria run --report` writes.
#[derive(Deserialize)]
struct Summary {
    calls: Calls,
    mount_requests: u64,
}

#[derive(Deserialize)]
struct Calls {
    direct: u64,
}

impl Mounted {
    fn start(
        place: Place,
        scratch: &Scratch,
        user: User,
        (own, notes, name): (&Path, &Path, &str),
        cancel: Cancel<'_>,
    ) -> Result<Mounted> {
        let pool = notes.join(name);
        let report = notes.join(format!("{name}.json"));
        let sized = format!("0:{}:{POOL_SIZE}", pool.display());
        let mut mkfs = command(&scratch.egeria, user, notes);
        process::run_well(mkfs.args(["mkfs", "--pool", &sized]), LIMIT, cancel)?;
        let failed = |error| Error::io("cannot start egeria run", error, "build it again");
        let said = own.join(format!("{name}.log"));
        let mut run = command(&scratch.egeria, user, notes);
        run.args(["run", "--volume"])
            .arg(&pool)
            .arg("--report")
            .arg(&report)
            .args(["--", "sh", "-c", "echo \"$EGERIA_MOUNT\" && exec cat"])
            // The command only waits; programs get the library from us.
            .env("EGERIA_PRELOAD_LIB", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&said).map_err(failed)?);
        let mut group = Group::start(&mut run).map_err(failed)?;
        let child = group.child();
        let (process_id, input) = (child.id(), child.stdin.take());
        let mut line = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(failed)?;
        }
        if line.trim().is_empty() {
            let said = fs::read_to_string(&said).unwrap_or_default();
            return Err(Error::failed(format!(
                "egeria run did not mount{}",
                last_words(&said)
            )));
        }
        Ok(Mounted {
            group,
            process_id,
            input,
            directory: PathBuf::from(line.trim()),
            egeria: scratch.egeria.clone(),
            user,
            said,
            pool,
            report,
            notes: notes.to_owned(),
            library: (place == Place::Library).then(|| scratch.library.clone()),
        })
    }

    fn end(mut self, cancel: Cancel<'_>) -> Result<Counts> {
        drop(self.input.take());
        let said = || {
            let said = fs::read_to_string(&self.said);
            last_words(&said.unwrap_or_default())
        };
        match self.group.wait(LIMIT, cancel)? {
            Some(status) if status.success() => {}
            _ => {
                let said = said();
                return Err(Error::failed(format!("egeria run did not end well{said}")));
            }
        }
        let mut check = command(&self.egeria, self.user, &self.notes);
        process::run_well(check.arg("check").arg(&self.pool), LIMIT, cancel)?;
        let unexpected = |error: String| {
            Error::failed(format!(
                "the report of egeria run is not as expected: {error}"
            ))
        };
        let report =
            fs::read_to_string(&self.report).map_err(|error| unexpected(error.to_string()))?;
        let report: Summary =
            serde_json::from_str(&report).map_err(|error| unexpected(error.to_string()))?;
        Ok(Counts {
            direct: report.calls.direct,
            mount_requests: report.mount_requests,
        })
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.input.take().is_some() {
            self.group.ask_to_end(LIMIT);
            detach(&self.directory);
        }
    }
}

/// A command of Egeria as the user, with its mount points in `notes`.
fn command(egeria: &Path, user: User, notes: &Path) -> Command {
    let mut command = Command::new(egeria);
    command
        .env_remove("LD_PRELOAD")
        .env("XDG_RUNTIME_DIR", notes)
        .env("HOME", notes)
        .current_dir("/");
    user.apply(&mut command);
    command
}

/// What stays is removed with the scratch directory.
pub(super) fn remove(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}
