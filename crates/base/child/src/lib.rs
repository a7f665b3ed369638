//! Children that cannot outlive or outstay their parent: own process groups, time limits, death with the parent.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use egeria_files::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, set_parent_process_death_signal,
};

/// How often a waiting parent looks whether it should stop.
const POLL_INTERVAL_MS: u64 = 50;
/// How long a killed child may take to be gone.
const REAP_TIMEOUT: Duration = Duration::from_secs(3);
/// How much of a program's last words an error quotes, characters.
const QUOTE_CHARACTERS: usize = 300;
const DOING: &str = "cannot wait for a child";

/// Set to end what runs, as by a signal handler.
pub type Cancel<'a> = Option<&'a AtomicBool>;

/// # Errors
/// [`Error::Interrupted`] when that is set.
pub fn check_cancel(cancel: Cancel<'_>) -> Result<()> {
    match cancel {
        Some(flag) if flag.load(Ordering::Relaxed) => Err(Error::Interrupted),
        _ => Ok(()),
    }
}

/// A child that leads a process group of its own; the whole group is killed on drop.
#[derive(Debug)]
pub struct Group {
    child: Child,
    reaped: bool,
}

impl Group {
    /// Starts `command` as leader of a new group. The leader dies when this thread does.
    ///
    /// # Errors
    /// The kernel's.
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
    ///
    /// # Errors
    /// When `cancel` is set, or the kernel cannot wait.
    pub fn wait(&mut self, limit: Duration, cancel: Cancel<'_>) -> Result<Option<ExitStatus>> {
        let ended = self.ends_within(limit, cancel)?;
        ended.then(|| self.finish()).transpose()
    }

    /// Whether the leader ends within `limit`. It is not reaped yet, so its number stays its group's.
    ///
    /// # Errors
    /// Those of [`Group::wait`].
    pub fn ends_within(&self, limit: Duration, cancel: Cancel<'_>) -> Result<bool> {
        let watch = pidfd(self.child.id())
            .map_err(|error| Error::io(DOING, error, "this needs Linux 5.3"))?;
        let deadline = Instant::now() + limit;
        loop {
            check_cancel(cancel)?;
            let left = deadline.saturating_duration_since(Instant::now());
            let pause = left.min(Duration::from_millis(POLL_INTERVAL_MS));
            if ended_within(&watch, pause) {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Kills what the leader, which has ended, left in its group, and gives its status.
    ///
    /// # Errors
    /// When the kernel cannot wait.
    pub fn finish(&mut self) -> Result<ExitStatus> {
        // Until the leader is reaped, its number is its group's alone.
        self.signal(Signal::KILL);
        self.reaped = true;
        let status = self.child.wait();
        status.map_err(|error| Error::io(DOING, error, "try again"))
    }

    /// Asks the group to end (SIGTERM), and gives the leader so long for it. What does not end is killed on drop.
    pub fn ask_to_end(&self, patience: Duration) {
        self.signal(Signal::TERM);
        // A stopped process handles no signal.
        self.signal(Signal::CONT);
        let _ = self.ends_within(patience, None);
    }

    fn signal(&self, signal: Signal) {
        // The group is ours as long as its leader is not reaped.
        if let Some(leader) = Pid::from_raw(self.child.id() as i32).filter(|_| !self.reaped) {
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.signal(Signal::KILL);
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
