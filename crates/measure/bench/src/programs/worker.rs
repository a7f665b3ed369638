//! Worker processes: each request is a line of JSON on their standard input, and each answer one on their standard output.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use egeria_harness::process::{Cancel, Group, check_cancel};
use egeria_harness::{Error, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A running worker; killed when dropped.
pub(crate) struct Worker {
    /// What it is called in errors.
    pub(crate) name: &'static str,
    pub(crate) process_id: u32,
    requests: ChildStdin,
    replies: Receiver<String>,
    patience: Duration,
    _group: Group,
}

/// What a worker answers.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Answer<A> {
    Failed { failure: String },
    Done(A),
}

impl Worker {
    /// Starts a worker that takes no longer than `patience` for any request.
    pub(crate) fn start(
        command: &mut Command,
        name: &'static str,
        patience: Duration,
    ) -> Result<Worker> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let program = command.get_program().display().to_string();
        let failed = |error| Error::io(format!("cannot start {program}"), error, "build it again");
        let mut group = Group::start(command).map_err(failed)?;
        let child = group.child();
        let process_id = child.id();
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::failed("a worker came without its pipes; try again"));
        };
        let (sender, replies) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(|line| line.ok());
            // Once the worker is dropped, the channel has no receiver.
            lines.into_iter().try_for_each(|line| sender.send(line))
        });
        Ok(Worker {
            name,
            process_id,
            requests,
            replies,
            patience,
            _group: group,
        })
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask<A: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
        cancel: Cancel<'_>,
    ) -> Result<A> {
        let mut line = serde_json::to_vec(request).map_err(Error::failed)?;
        line.push(b'\n');
        self.requests
            .write_all(&line)
            .map_err(|error| self.ended(&error.to_string()))?;
        match serde_json::from_str(&self.answer(cancel)?).map_err(Error::failed)? {
            Answer::Failed { failure } => {
                Err(Error::failed(format!("measuring {}: {failure}", self.name)))
            }
            Answer::Done(answer) => Ok(answer),
        }
    }

    fn answer(&self, cancel: Cancel<'_>) -> Result<String> {
        let deadline = Instant::now() + self.patience;
        loop {
            check_cancel(cancel)?;
            match self.replies.recv_timeout(Duration::from_millis(50)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended("no answer")),
                Err(RecvTimeoutError::Timeout) if Instant::now() > deadline => {
                    let seconds = self.patience.as_secs();
                    return Err(self.ended(&format!("no answer for {seconds} s")));
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

/// The worker's side: answers requests until standard input ends.
pub(crate) fn serve<Q: DeserializeOwned, A: Serialize>(
    mut answer: impl FnMut(&Q) -> io::Result<A>,
) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let request = serde_json::from_str(&line?).map_err(io::Error::other);
        let reply = match request.and_then(|request| answer(&request)) {
            Ok(reply) => Answer::Done(reply),
            Err(error) => Answer::Failed {
                failure: error.to_string(),
            },
        };
        let mut stdout = io::stdout().lock();
        serde_json::to_writer(&mut stdout, &reply)?;
        stdout.write_all(b"\n")?;
        stdout.flush()?;
    }
    Ok(())
}

/// Runs so many threads at once, each on a CPU of its own; each gets its number, and a barrier to wait at before it is timed.
///
/// # Errors
/// The first of a thread.
pub(crate) fn in_threads<T: Send>(
    threads: usize,
    run: impl Fn(usize, &Barrier) -> io::Result<T> + Sync,
) -> io::Result<Vec<T>> {
    let (run, barrier) = (&run, &Barrier::new(threads));
    std::thread::scope(|scope| {
        let start = |thread| {
            scope.spawn(move || {
                pin(thread);
                run(thread, barrier)
            })
        };
        let handles: Vec<_> = (0..threads).map(start).collect();
        let panicked = || io::Error::other("a measuring thread panicked");
        let join = |handle: ScopedJoinHandle<'_, io::Result<T>>| {
            handle.join().unwrap_or_else(|_| Err(panicked()))
        };
        // All are joined, also after a failure.
        let all: Vec<io::Result<T>> = handles.into_iter().map(join).collect();
        all.into_iter().collect()
    })
}

/// Binds this thread to the `thread`-th CPU it may use; with fewer CPUs than threads they share.
fn pin(thread: usize) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let all = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let cpus: Vec<usize> = all.collect();
    let mut chosen = CpuSet::new();
    chosen.set(cpus[thread % cpus.len()]);
    // Unpinned figures are noisier, not wrong.
    let _ = sched_setaffinity(None, &chosen);
}
