//! Children that cannot outlive, outstay or hide from us: own process groups, time limits,
//! death with the parent.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, set_parent_process_death_signal,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use egeria_files::{Error, Result};

/// How often a waiting parent looks whether it should stop.
const POLL_INTERVAL_MS: u64 = 50;
/// How long a killed child may take to be gone.
const REAP_TIMEOUT: Duration = Duration::from_secs(3);
/// How much of a program's last words an error quotes, characters.
const QUOTE_CHARACTERS: usize = 300;

/// What the person at the terminal, if there is one, may set to stop us.
pub type Cancel<'a> = Option<&'a AtomicBool>;

/// Fails when somebody asked to stop.
pub fn check_cancel(cancel: Cancel<'_>) -> Result<()> {
    match cancel {
        Some(flag) if flag.load(Ordering::Relaxed) => Err(Error::Interrupted),
        _ => Ok(()),
    }
}

/// A child that leads a process group of its own; the whole group is killed on drop.
pub struct Group {
    child: Child,
    reaped: bool,
}

impl Group {
    /// Starts `command` as leader of a new group that dies when this thread does.
    pub fn start(command: &mut Command) -> io::Result<Group> {
        command.process_group(0);
        let die_with_parent = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
        // SAFETY: the closure only makes an async-signal-safe system call.
        unsafe { command.pre_exec(die_with_parent) };
        Ok(Group {
            child: command.spawn()?,
            reaped: false,
        })
    }

    /// The child itself, for its pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits until the leader ends; `None` when it did not within `limit`.
    pub fn wait(&mut self, limit: Duration, cancel: Cancel<'_>) -> Result<Option<ExitStatus>> {
        let doing = "cannot wait for a child";
        let watch = pidfd(self.child.id())
            .map_err(|error| Error::io(doing, error, "this needs Linux 5.3"))?;
        let deadline = Instant::now() + limit;
        loop {
            check_cancel(cancel)?;
            let left = deadline.saturating_duration_since(Instant::now());
            let pause = left.min(Duration::from_millis(POLL_INTERVAL_MS));
            if ended_within(&watch, pause) {
                // What the leader left behind goes now: until it is reaped, its number is its group's alone.
                self.kill();
                self.reaped = true;
                let status = self.child.wait();
                return status
                    .map(Some)
                    .map_err(|error| Error::io(doing, error, "try again"));
            }
            if left.is_zero() {
                return Ok(None);
            }
        }
    }
}

impl Group {
    fn kill(&self) {
        // The group is ours as long as its leader is not reaped.
        if let Some(leader) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.kill();
        // A process that waits for a file system that hangs does not die until that is gone:
        // do not wait for it for ever.
        let dead = pidfd(self.child.id()).is_ok_and(|watch| ended_within(&watch, REAP_TIMEOUT));
        if dead {
            let _ = self.child.wait();
        }
    }
}

fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

fn ended_within(watch: &OwnedFd, pause: Duration) -> bool {
    let mut watched = [PollFd::new(watch, PollFlags::IN)];
    let pause = Timespec::try_from(pause).ok();
    poll(&mut watched, pause.as_ref()) == Ok(1)
}

/// What a program that ended in time left behind.
pub struct Finished {
    pub status: ExitStatus,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Wall time from start to end.
    pub elapsed: Duration,
}

/// Runs a program to its end and keeps what it says.
///
/// # Errors
/// When it cannot be started, outlives `limit` (its group is killed), or `cancel` is set.
pub fn run(command: &mut Command, limit: Duration, cancel: Cancel<'_>) -> Result<Finished> {
    let name = display_name(command.get_program());
    let failed = |error| Error::io(format!("cannot start {name}"), error, "is it installed?");
    let (mut stdout, mut stderr) = (
        tempfile::tempfile().map_err(failed)?,
        tempfile::tempfile().map_err(failed)?,
    );
    command
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().map_err(failed)?)
        .stderr(stderr.try_clone().map_err(failed)?);
    let start = Instant::now();
    let mut group = Group::start(command).map_err(failed)?;
    let Some(status) = group.wait(limit, cancel)? else {
        drop(group);
        let said = last_words(&text_of(&mut stderr));
        let seconds = limit.as_secs();
        return Err(Error::failed(format!(
            "{name} did not end within {seconds} s and was killed{said}"
        )));
    };
    let elapsed = start.elapsed();
    Ok(Finished {
        status,
        stdout: text_of(&mut stdout),
        stderr: text_of(&mut stderr),
        elapsed,
    })
}

/// As [`run`], but a program that does not end with status 0 is an error that quotes it.
pub fn run_well(command: &mut Command, limit: Duration, cancel: Cancel<'_>) -> Result<Finished> {
    let finished = run(command, limit, cancel)?;
    if finished.status.success() {
        return Ok(finished);
    }
    let name = display_name(command.get_program());
    let how = match (finished.status.code(), finished.status.signal()) {
        (Some(code), _) => format!("ended with status {code}"),
        (_, Some(signal)) => format!("was killed by signal {signal}"),
        _ => "ended badly".to_owned(),
    };
    let said = match finished.stderr.trim() {
        "" => last_words(&finished.stdout),
        _ => last_words(&finished.stderr),
    };
    Err(Error::failed(format!("{name} {how}{said}")))
}

/// From here on this process and its children see mounts of their own: what they mount is nobody else's.
///
/// # Errors
/// `EPERM` for whoever may not.
pub fn separate_mounts() -> io::Result<()> {
    // SAFETY: no descriptor or memory is parted, mounts alone.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    let alone = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    Ok(mount_change("/", alone)?)
}

/// Ends this process by a signal when it is not dropped in time: for what may hang where nothing else would end it.
pub struct Deadline(());

impl Deadline {
    /// The only one of the process.
    pub fn in_seconds(seconds: u32) -> Deadline {
        set_alarm(seconds);
        Deadline(())
    }
}

impl Drop for Deadline {
    fn drop(&mut self) {
        set_alarm(0);
    }
}

fn set_alarm(seconds: u32) {
    // SAFETY: a timer of this process; its signal has no handler.
    unsafe { libc::alarm(seconds) };
}

fn display_name(program: &OsStr) -> String {
    let path = Path::new(program);
    path.file_name()
        .unwrap_or(program)
        .to_string_lossy()
        .into_owned()
}

fn text_of(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    // What cannot be read back is as good as never said.
    read.map(|_| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// The end of what a program said, in one line, as a tail for an error.
pub fn last_words(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let joined = lines[lines.len().saturating_sub(3)..].join(" | ");
    let skip = joined.chars().count().saturating_sub(QUOTE_CHARACTERS);
    if joined.is_empty() {
        String::new()
    } else {
        format!(": {}", joined.chars().skip(skip).collect::<String>())
    }
}

/// Does something that may hang, as a walk through a mount, on a thread of its own.
///
/// # Errors
/// When it is not done within `limit`; the thread is then left to itself.
pub fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(work()));
    receiver.recv_timeout(limit).map_err(|_| {
        let seconds = limit.as_secs();
        Error::failed(format!("{what} was not done within {seconds} s"))
    })
}

/// A shell's command line, for tests.
#[cfg(test)]
pub(crate) fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hanging_group_is_killed_at_its_limit_and_named() {
        let mut command = shell("sleep 1000 & echo waiting >&2; wait");
        let Err(error) = run(&mut command, Duration::from_millis(300), None) else {
            panic!("it cannot have ended");
        };
        let text = error.to_string();
        assert!(
            text.contains("sh did not end within 0 s") && text.contains("waiting"),
            "{text}"
        );
    }

    #[test]
    fn what_a_leader_leaves_behind_dies_with_its_group() {
        let finished = run(
            &mut shell("sleep 1000 & echo $!"),
            Duration::from_secs(20),
            None,
        )
        .unwrap();
        let pid: i32 = finished.stdout.trim().parse().unwrap();
        let gone = (0..400).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
        assert!(gone, "process {pid} outlived its leader's group");
    }

    #[test]
    fn a_failing_program_is_quoted() {
        let error = run_well(
            &mut shell("echo no such luck >&2; exit 3"),
            Duration::from_secs(20),
            None,
        );
        let text = error.err().unwrap().to_string();
        assert_eq!(text, "sh ended with status 3: no such luck");
    }

    #[test]
    fn what_hangs_in_this_process_is_given_up() {
        assert_eq!(
            within(Duration::from_secs(20), "adding", || 1 + 1).unwrap(),
            2
        );
        let hang = || std::thread::sleep(Duration::from_secs(1000));
        let text = within(Duration::from_millis(50), "waiting", hang)
            .unwrap_err()
            .to_string();
        assert!(text.starts_with("waiting was not done"), "{text}");
    }

    #[test]
    fn a_set_flag_stops_a_wait() {
        let flag = AtomicBool::new(true);
        let outcome = run(
            &mut shell("sleep 1000"),
            Duration::from_secs(500),
            Some(&flag),
        );
        assert!(matches!(outcome, Err(Error::Interrupted)));
    }
}
