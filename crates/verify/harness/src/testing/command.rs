//! Running a command as a user does.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing here takes that long: what does, hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What a command left behind.
#[derive(Debug)]
pub struct Ended {
    /// Exit status, 128 + signal when one killed it.
    pub status: i32,
    /// What it wrote there.
    pub stdout: String,
    /// What it wrote there.
    pub stderr: String,
}

impl Ended {
    /// Asserts success and nothing said on stderr.
    #[track_caller]
    pub fn ok(self) -> Ended {
        assert_eq!(self.status, 0, "{self:?}");
        self
    }

    /// The one JSON document on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// Asserts that it failed with this status and exactly one line, `egeria: cause; hint` or that of
    /// `egeria-torture`, that holds all of `words`.
    #[track_caller]
    pub fn refused(&self, status: i32, words: &[&str]) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        let lines: Vec<&str> = self.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "not one line: {self:?}");
        assert!(
            lines[0].starts_with("egeria") && lines[0].contains(": ") && lines[0].contains("; "),
            "no cause and hint: {self:?}"
        );
        for word in words {
            assert!(lines[0].contains(word), "{word:?} is not in {:?}", lines[0]);
        }
    }
}

/// Takes away what the environment of the tests would add to a command.
pub fn without_surroundings(command: &mut Command) {
    command
        .env("EGERIA_PRELOAD_LIB", "")
        .env_remove("LD_PRELOAD")
        .env_remove("XDG_RUNTIME_DIR");
    // Whoever runs the tests in the background of a shell may ignore what we send, and the command
    // follows that.
    // SAFETY: the calls are async-signal-safe, install no handler and allocate nothing.
    unsafe {
        command.pre_exec(|| {
            for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        })
    };
}

/// Runs any command to its end; panics when it hangs.
#[track_caller]
pub fn finish(command: Command) -> Ended {
    Running::start(command).finish()
}

/// A command under way, which does not outlive its test. Output goes through files, so that a background process that
/// keeps it open does not keep us waiting.
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
}

impl Running {
    /// Starts it, with nothing on its stdin.
    #[track_caller]
    pub fn start(mut command: Command) -> Running {
        let (stdout, stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        command
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().unwrap())
            .stderr(stderr.try_clone().unwrap());
        let child = command.spawn().unwrap();
        Running {
            child,
            stdout,
            stderr,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until something holds of it; panics with what was waited for and what it wrote, when it ends before or
    /// takes too long.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, mut holds: impl FnMut() -> bool) {
        let started = Instant::now();
        while !holds() {
            let ended = self.child.try_wait().unwrap();
            let in_time = ended.is_none() && started.elapsed() < PATIENCE;
            if !in_time {
                let state = describe(&self.child);
                let (stdout, stderr) = (text(&mut self.stdout), text(&mut self.stderr));
                panic!("never: {what}; {state}, and wrote {stdout:?} and {stderr:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it leaves behind when it ends, which must be soon.
    #[track_caller]
    pub fn finish(mut self) -> Ended {
        let status = status_within(&mut self.child, PATIENCE);
        let (stdout, stderr) = (text(&mut self.stdout), text(&mut self.stderr));
        match status {
            Ok(status) => Ended {
                status,
                stdout,
                stderr,
            },
            Err(state) => panic!("no end: {state}, and wrote {stdout:?} and {stderr:?}"),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Exit status of a child that must end soon.
#[track_caller]
pub fn wait(child: &mut Child) -> i32 {
    wait_within(child, PATIENCE)
}

/// The same, of one that may take longer.
#[track_caller]
pub fn wait_within(child: &mut Child, limit: Duration) -> i32 {
    status_within(child, limit).unwrap_or_else(|state| panic!("no end: {state}"))
}

/// Exit status of a child; of one that takes too long, and is killed for it, what it was at.
fn status_within(child: &mut Child, limit: Duration) -> Result<i32, String> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Ok(status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap()));
        }
        if started.elapsed() > limit {
            let state = describe(child);
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!("{state} after {} s", limit.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A child in words: its command, and what the kernel says of its state.
fn describe(child: &Child) -> String {
    let read = |name: &str| std::fs::read(format!("/proc/{}/{name}", child.id()));
    let command = read("cmdline").unwrap_or_default();
    let command = String::from_utf8_lossy(&command).replace('\0', " ");
    let status = read("status").unwrap_or_default();
    let status = String::from_utf8_lossy(&status).into_owned();
    let state = status
        .lines()
        .find_map(|line| line.strip_prefix("State:"))
        .map_or("gone", str::trim);
    format!("process {} ({}) is {state}", child.id(), command.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::shell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn what_takes_too_long_is_named_with_its_state() {
        let mut child = shell("exec sleep 600").spawn().unwrap();
        let said = status_within(&mut child, Duration::from_millis(300)).unwrap_err();
        assert!(said.contains("sleep 600) is S"), "{said}");
    }

    #[test]
    fn what_ends_before_it_was_expected_to_says_what_it_wrote() {
        let mut running = Running::start(shell("echo early; exit 3"));
        let wait = || running.wait_until("it has begun", || false);
        let panic = catch_unwind(AssertUnwindSafe(wait)).unwrap_err();
        let said = panic.downcast_ref::<String>().unwrap();
        assert!(said.contains("never: it has begun"), "{said}");
        assert!(said.contains("early"), "{said}");
    }
}
