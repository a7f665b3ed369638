//! Programs that are run to their end in a group of their own, and what they said.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use egeria_files::{Error, Result};

pub use egeria_child::{Cancel, Group, check_cancel, last_words};

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
    use std::sync::atomic::AtomicBool;

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
