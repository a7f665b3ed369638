//! The measurement: sets up the places and takes turns.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use egeria_harness::process::{Cancel, Group, check_cancel};
use egeria_harness::program::find_beside;
use egeria_harness::{Error, Progress, Result};
use egeria_scratch::check_room;
use egeria_stats::statistics::rotated_order;

use super::options::NamesOptions;
use super::plan::{self, Case, MAX_THREADS};
use super::report::{NamesReport, NamesRow};
use super::worker::{Reply, Request};
use crate::subjects::{Needs, Places, SUBJECTS, Subject};

/// Name of the measured program.
const WORKER: &str = "egeria-names-worker";
/// How long a worker may take for one request: filling a directory makes 100,000 names.
const PATIENCE: Duration = Duration::from_secs(300);
/// Room in the pool for whatever a case makes.
const SPARE_BYTES: u64 = 256 << 20;
/// Room a file without content takes at most, on any of the places.
const NAME_BYTES: u64 = 8 << 10;

pub(super) fn run(options: &NamesOptions<'_>) -> Result<NamesReport> {
    let most = options.entries.iter().copied().max().unwrap_or(0);
    let sensible = options.entries.is_sorted() && options.entries.first() > Some(&0);
    if options.rounds == 0 || !sensible || !(1..=MAX_THREADS).contains(&options.threads) {
        return Err(Error::failed(
            "nothing to measure; ask for at least 1 round, 1 name and 1 or 2 threads",
        ));
    }
    // Both the library's and the mount's directories are in the pool.
    let pool_bytes = SPARE_BYTES + 2 * (MAX_THREADS * most) as u64 * NAME_BYTES;
    check_room(&options.memory_directory, pool_bytes, "free some")?;
    let places = Places::set_up(&Needs {
        memory_directory: &options.memory_directory,
        pool_bytes,
        preload_library: &options.preload_library,
        loopback: options.loopback.as_deref(),
    })?;
    let mut workers = Vec::new();
    for subject in SUBJECTS {
        workers.push(Worker::start(options.worker.as_deref(), &places, subject)?);
    }
    let cases = plan::cases(&options.operations, &options.entries, options.threads);
    let rows = measure_all(options, &mut workers, &cases)?;
    Ok(NamesReport {
        rows,
        rounds: options.rounds,
    })
}

fn measure_all(
    options: &NamesOptions<'_>,
    workers: &mut [Worker],
    cases: &[Case],
) -> Result<Vec<NamesRow>> {
    let total = cases.len() as u64;
    let tell = |done: usize, what: &str| {
        let done = done as u64;
        (options.progress)(&Progress { done, total, what });
    };
    let (mut rows, mut filled) = (Vec::new(), 0);
    for (done, case) in cases.iter().enumerate() {
        if filled != case.entries {
            filled = case.entries;
            for worker in &mut *workers {
                tell(
                    done,
                    &format!("{filled} names on {}", worker.subject.name()),
                );
                let directories = options.threads;
                let entries = case.entries;
                worker.ask(
                    &Request::Fill {
                        directories,
                        entries,
                    },
                    options.cancel,
                )?;
            }
        }
        let (name, threads) = (case.operation.name(), case.threads);
        tell(done, &format!("{name}, {threads} threads, {filled} names"));
        let mut rounds: [Vec<f64>; 4] = Default::default();
        for round in 0..options.rounds {
            for place in rotated_order(workers.len(), round) {
                check_cancel(options.cancel)?;
                let request = Request::Measure {
                    case: *case,
                    milliseconds: options.measurement_ms,
                };
                match workers[place].ask(&request, options.cancel)? {
                    Reply::Measured { ns } => rounds[place].push(ns),
                    _ => return Err(Error::failed("a worker gave no figure; build it again")),
                }
            }
        }
        rows.push(NamesRow::of_rounds(case, &rounds));
    }
    tell(cases.len(), "done");
    Ok(rows)
}

/// A running worker; killed when dropped.
struct Worker {
    subject: Subject,
    requests: ChildStdin,
    replies: Receiver<String>,
    _group: Group,
}

impl Worker {
    fn start(program: Option<&Path>, places: &Places, subject: Subject) -> Result<Worker> {
        let program = find_beside(program, WORKER, "EGERIA_NAMES_WORKER")?;
        let failed = |error| Error::io(format!("cannot start {WORKER}"), error, "build it again");
        let mut command = places.command(subject, program);
        command
            .arg(places.directory(subject))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut group = Group::start(&mut command).map_err(failed)?;
        let child = group.child();
        let process = child.id();
        let (Some(requests), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::failed("a worker came without its pipes; try again"));
        };
        let (sender, replies) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(|line| line.ok());
            // Nobody listens any more once the worker is dropped.
            lines.into_iter().try_for_each(|line| sender.send(line))
        });
        let mut worker = Worker {
            subject,
            requests,
            replies,
            _group: group,
        };
        worker.ask(&Request::Hello, None)?;
        let is_loaded = maps(process, places.library());
        if is_loaded != (subject == Subject::Run) {
            let name = subject.name();
            return Err(Error::failed(format!(
                "measuring {name}: the preload library is {}loaded; unset LD_PRELOAD and see /etc/ld.so.preload",
                if is_loaded { "" } else { "not " }
            )));
        }
        Ok(worker)
    }

    /// Asks, and waits for the answer.
    fn ask(&mut self, request: &Request, cancel: Cancel<'_>) -> Result<Reply> {
        let mut line = serde_json::to_vec(request).map_err(Error::failed)?;
        line.push(b'\n');
        self.requests
            .write_all(&line)
            .map_err(|error| self.ended(&error.to_string()))?;
        let name = self.subject.name();
        match serde_json::from_str(&self.answer(cancel)?).map_err(Error::failed)? {
            Reply::Failed { message } => Err(Error::failed(format!("measuring {name}: {message}"))),
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
                    let seconds = PATIENCE.as_secs();
                    return Err(self.ended(&format!("no answer for {seconds} s")));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn ended(&self, how: &str) -> Error {
        Error::failed(format!(
            "measuring {}: the worker ended early ({how}); see its message above",
            self.subject.name()
        ))
    }
}

/// Whether a process has a library loaded.
fn maps(process: u32, library: &Path) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let library = library
        .canonicalize()
        .unwrap_or_else(|_| library.to_owned());
    maps.contains(&*library.to_string_lossy())
}
