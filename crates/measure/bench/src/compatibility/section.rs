//! Sections of a job: run to their end, or killed with all that they started.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use egeria_harness::process::{self, Cancel, Finished, Group, last_words};
use egeria_harness::{Error, Result};
use procfs::process::{Stat, all_processes};
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, waitpid};

use super::find::Tools;
use super::job::{Job, PRELUDE, SECTIONS};
use super::place::Ground;
use super::user::User;

/// How long a load may take until it notes the first thing that was acknowledged.
const FIRST_LIMIT: Duration = Duration::from_secs(60);
/// How long killed processes may take to be gone.
const DEATH_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
/// Ports that are free for a job.
const PORTS: usize = 8;
/// Where a load notes what was acknowledged, in the directory `NOTES`.
const ACKNOWLEDGED: &str = "acknowledged";

/// What holds for all sections.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a> {
    /// How long a load goes on after the first acknowledgement.
    pub(super) load: Duration,
    pub(super) cancel: Cancel<'a>,
    /// Shows the commands and the output of a section that fails.
    pub(super) trace: bool,
}

/// A job's script, ready to run on one place.
pub(super) struct Script<'a> {
    job: &'a Job,
    tools: &'a Tools,
    ground: &'a Ground,
    input: PathBuf,
    user: User,
    file: PathBuf,
}

impl<'a> Script<'a> {
    /// # Errors
    /// When it cannot be written.
    pub(super) fn write(
        job: &'a Job,
        tools: &'a Tools,
        ground: &'a Ground,
        input: &Path,
        user: User,
    ) -> Result<Script<'a>> {
        let file = ground.own().join("job.sh");
        let text = format!(
            "{PRELUDE}\n{}\nmkdir -p \"$2\" ${{SECOND:+\"$SECOND\"}}\ncd \"$2\"\n\"$1\"\n",
            job.text
        );
        let failed = |error| Error::io("cannot write a script", error, "is the tmpfs full?");
        fs::write(&file, text).map_err(failed)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).map_err(failed)?;
        Ok(Script {
            job,
            tools,
            ground,
            input: input.to_owned(),
            user,
            file,
        })
    }

    /// Runs a section to its end. What it leaves running is killed.
    ///
    /// # Errors
    /// When it fails, with its last words, or takes too long.
    pub(super) fn run(
        &self,
        section: &str,
        directory: &Path,
        limits: Limits<'_>,
    ) -> Result<Finished> {
        let mut command = self.command(section, directory, limits)?;
        let limit = Duration::from_secs(self.job.limit_s);
        let ended = process::run(&mut command, limit, limits.cancel);
        kill_descendants(&self.ground.holders());
        reap(&self.ground.holders());
        let finished = ended.map_err(|error| in_section(section, error))?;
        if finished.status.success() {
            return Ok(finished);
        }
        if limits.trace {
            eprintln!("{}{}", finished.stdout, finished.stderr);
        }
        let said = match finished.stderr.trim() {
            "" => last_words(&finished.stdout),
            _ => last_words(&finished.stderr),
        };
        Err(Error::failed(format!("{section} failed{said}")))
    }

    /// Runs a section until it has worked for a while after its first acknowledgement. Then all of its processes are killed.
    ///
    /// # Errors
    /// When it ends by itself, or nothing is acknowledged.
    pub(super) fn run_until_killed(
        &self,
        section: &str,
        directory: &Path,
        limits: Limits<'_>,
    ) -> Result<()> {
        let log = self.ground.own().join("load.log");
        let failed = |error| Error::io("cannot start a load", error, "is the tmpfs full?");
        let said = File::create(&log).map_err(failed)?;
        let mut command = self.command(section, directory, limits)?;
        command
            .stdin(Stdio::null())
            .stdout(said.try_clone().map_err(failed)?)
            .stderr(said);
        let mut group = Group::start(&mut command).map_err(failed)?;
        let by_itself = self.works(&group, limits);
        kill_descendants(&self.ground.holders());
        group.finish()?;
        reap(&self.ground.holders());
        let Some(why) = by_itself? else {
            return Ok(());
        };
        let said = fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        if limits.trace {
            eprintln!("{said}");
        }
        let said = last_words(&said);
        Err(Error::failed(format!("{section} {why}{said}")))
    }

    /// Lets a load work; why it was not in the middle of its work at the end, if so.
    fn works(&self, group: &Group, limits: Limits<'_>) -> Result<Option<&'static str>> {
        let notes = self.ground.notes().join(ACKNOWLEDGED);
        let start = Instant::now();
        while fs::metadata(&notes).map_or(0, |facts| facts.len()) == 0 {
            if group.ends_within(POLL, limits.cancel)? {
                return Ok(Some("ended before anything was acknowledged"));
            }
            if start.elapsed() > FIRST_LIMIT {
                return Ok(Some("acknowledged nothing"));
            }
        }
        let ended = group.ends_within(limits.load, limits.cancel)?;
        Ok(ended.then_some("ended by itself"))
    }

    fn command(&self, section: &str, directory: &Path, limits: Limits<'_>) -> Result<Command> {
        debug_assert!(SECTIONS.contains(&section));
        let notes = self.ground.notes();
        let mut command = Command::new("/bin/sh");
        command
            .arg(if limits.trace { "-eux" } else { "-eu" })
            .arg(&self.file)
            .arg(section)
            .arg(directory)
            .current_dir("/")
            .env_clear()
            .env("PATH", self.tools.path(self.job))
            .env("NODE_PATH", self.tools.node().join("node_modules"))
            .env("TOOLS", self.tools.directory())
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", notes)
            .env("TMPDIR", notes)
            .env("INPUT", &self.input)
            .env("NOTES", notes)
            .env("PLACE", self.ground.place().name());
        if let Some(second) = self.ground.second(directory) {
            command.env("SECOND", second);
        }
        for (index, port) in free_ports()?.iter().enumerate() {
            command.env(format!("PORT{}", index + 1), port.to_string());
        }
        self.ground.enter(&mut command);
        self.user.apply(&mut command);
        Ok(command)
    }
}

fn in_section(section: &str, error: Error) -> Error {
    match error {
        Error::Interrupted => Error::Interrupted,
        other => Error::failed(format!("{section}: {other}")),
    }
}

/// Ports of the loopback at which nothing listens now.
fn free_ports() -> Result<Vec<u16>> {
    let failed = |error| Error::io("cannot find a free port", error, "is the loopback up?");
    let listen = |_| TcpListener::bind(("127.0.0.1", 0));
    // All at once, so that no two are the same.
    let listeners: Vec<TcpListener> = (0..PORTS)
        .map(listen)
        .collect::<std::io::Result<_>>()
        .map_err(failed)?;
    let port = |listener: &TcpListener| Ok(listener.local_addr()?.port());
    let ports: std::io::Result<Vec<u16>> = listeners.iter().map(port).collect();
    ports.map_err(failed)
}

/// From here on, processes whose parent ends become children of this one. So all that a section started can be found.
///
/// # Errors
/// The kernel's.
pub(super) fn adopt_orphans() -> Result<()> {
    rustix::process::set_child_subreaper(Some(getpid())).map_err(|error| {
        Error::io(
            "cannot become the parent of orphans",
            error.into(),
            "is a filter of system calls in force?",
        )
    })
}

/// Kills the processes that descend from this one, except `spared` and what descends from these.
fn kill_descendants(spared: &[u32]) {
    let deadline = Instant::now() + DEATH_LIMIT;
    loop {
        let living = descendants(spared);
        let living: Vec<&Stat> = living.iter().filter(|one| one.state != 'Z').collect();
        if living.is_empty() || Instant::now() > deadline {
            return;
        }
        for one in living {
            if let Some(pid) = Pid::from_raw(one.pid) {
                // It may have ended by now.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Ended children are gone for good; `spared` are waited for elsewhere.
fn reap(spared: &[u32]) {
    let own = getpid().as_raw_nonzero().get();
    for one in descendants(spared) {
        if one.ppid == own && one.state == 'Z' {
            let _ = waitpid(Pid::from_raw(one.pid), WaitOptions::NOHANG);
        }
    }
}

fn descendants(spared: &[u32]) -> Vec<Stat> {
    let all = all_processes().into_iter().flatten().flatten();
    let mut others: Vec<Stat> = all.filter_map(|process| process.stat().ok()).collect();
    others.retain(|one| !spared.contains(&(one.pid as u32)));
    let mut parents = vec![getpid().as_raw_nonzero().get()];
    let mut found = Vec::new();
    while let Some(parent) = parents.pop() {
        let (children, rest): (Vec<Stat>, Vec<Stat>) =
            others.into_iter().partition(|one| one.ppid == parent);
        others = rest;
        parents.extend(children.iter().map(|child| child.pid));
        found.extend(children);
    }
    found
}
