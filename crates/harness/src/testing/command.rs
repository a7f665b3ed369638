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
    let reset = || {
        for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
            // SAFETY: async-signal-safe, and no handler is installed.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: as above; nothing is allocated.
    unsafe { command.pre_exec(reset) };
}

/// Runs any command to its end; panics when it hangs. Output goes through files, so that a
/// background process that keeps it open does not keep us waiting.
#[track_caller]
pub fn finish(mut command: Command) -> Ended {
    let (mut stdout, mut stderr) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone().unwrap())
        .stderr(stderr.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    let status = wait(&mut child);
    let text = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ended {
        status,
        stdout: text(&mut stdout),
        stderr: text(&mut stderr),
    }
}

/// Exit status of a child that must end soon.
#[track_caller]
pub fn wait(child: &mut Child) -> i32 {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap());
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("process {} hangs", child.id());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
