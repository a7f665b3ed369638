//! Processes that run while a test goes on, and what a test waits for.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use super::PATIENCE;

/// A process that does not outlive its test, and keeps none of its output open.
pub struct Background(pub Child);

impl Background {
    /// Starts it.
    ///
    /// # Panics
    /// When it does not start.
    #[track_caller]
    pub fn start(command: &mut Command) -> Background {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Background(command.spawn().expect("a process"))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Kills it, if it has not ended, and waits.
    pub fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends a signal.
///
/// # Panics
/// When there is no such process.
#[track_caller]
pub fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid as i32).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("a process to signal");
}

/// Waits until something holds.
///
/// # Panics
/// When it never does.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
