//! A worker process, and talking to it.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::worker::{Reply, Request};
use egeria_harness::process::{Cancel, Group, check_cancel};
use egeria_harness::program;
use egeria_harness::{Error, Result};

/// Name of the measured program.
const WORKER: &str = "egeria-datapath-worker";
/// How long a worker may take beyond what it was asked to: preparing writes and reads whole files.
const PATIENCE: Duration = Duration::from_secs(60);

/// The worker program: as given, from the environment, or beside this executable.
pub(super) fn find_worker(given: Option<&Path>) -> Result<PathBuf> {
    program::find_beside(given, WORKER, "EGERIA_DATAPATH_WORKER")
}

/// A running worker; killed when dropped.
pub(super) struct Worker {
    name: &'static str,
    requests: ChildStdin,
    replies: Receiver<String>,
    _group: Group,
}

impl Worker {
    /// Starts a worker named `name` in errors: `kind` as its command line says, and the library to
    /// preload, if any.
    pub(super) fn start(
        program: &Path,
        name: &'static str,
        kind: &str,
        file_bytes: u64,
        paths: &[PathBuf],
        preload: Option<&Path>,
    ) -> Result<Worker> {
        let mut command = Command::new(program);
        command.arg(kind).arg(file_bytes.to_string()).args(paths);
        command
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        let failed = |error| {
            Error::io(
                format!("cannot start {}", program.display()),
                error,
                "build it again",
            )
        };
        let mut group = Group::start(&mut command).map_err(failed)?;
        let child = group.child();
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::failed("a worker came without its pipes; try again"));
        };
        let (sender, replies) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(|line| line.ok());
            // Nobody listens any more once the worker is dropped.
            lines.into_iter().try_for_each(|line| sender.send(line))
        });
        Ok(Worker {
            name,
            requests,
            replies,
            _group: group,
        })
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&mut self, request: &Request, cancel: Cancel<'_>) -> Result<Reply> {
        let mut line = serde_json::to_vec(request).map_err(Error::failed)?;
        line.push(b'\n');
        self.requests
            .write_all(&line)
            .map_err(|error| self.ended(&error.to_string()))?;
        let reply: Reply = serde_json::from_str(&self.answer(cancel)?).map_err(Error::failed)?;
        match reply {
            Reply::Failed { message } => {
                Err(Error::failed(format!("measuring {}: {message}", self.name)))
            }
            reply => Ok(reply),
        }
    }

    fn answer(&self, cancel: Cancel<'_>) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            check_cancel(cancel)?;
            match self.replies.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended("no answer")),
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    let (name, seconds) = (self.name, PATIENCE.as_secs());
                    let text = format!(
                        "measuring {name}: no answer for {seconds} s, the worker was killed"
                    );
                    return Err(Error::failed(text));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn ended(&self, how: &str) -> Error {
        Error::failed(format!(
            "measuring {}: the worker ended early ({how}); see its message above",
            self.name
        ))
    }
}
