//! The measured program: reads requests from standard input, one JSON line each, and answers on
//! standard output.
//!
//! ```text
//! egeria-datapath-worker files|memory BYTES PATH…
//! ```
//! `files` measures system calls on the files named, `memory` bare copies on mappings of them.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::plan::{CROWD, Case, Files, Offsets, Operation};
use super::subject::{Buffer, Call, Calls, Opened, Subject, prefault};
use crate::programs::worker;
pub use crate::programs::worker::Answer;

/// Calls of each thread before its time starts.
const WARM_CALLS: u32 = 64;
/// Bytes moved between two looks at the clock: a look costs about 25 ns, these microseconds.
const BATCH_BYTES: u64 = 256 << 10;

/// What the worker is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    /// Make and fill the files.
    Prepare,
    /// Touch all pages of this process's mappings of a file.
    Prefault {
        /// The file, as the kernel names it.
        #[serde(with = "egeria_machine::exact_path")]
        path: PathBuf,
    },
    /// Measure one case.
    Measure {
        operation: Operation,
        /// Bytes of each call.
        block_bytes: u64,
        /// Threads at once.
        threads: usize,
        files: Files,
        /// Seed of the offsets.
        seed: u64,
        milliseconds: u64,
        /// Most bytes a thread appends.
        append_bytes: u64,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    Ready {
        /// Bytes of mappings touched.
        prefaulted_bytes: u64,
    },
    /// Done and timed.
    Measured {
        /// Calls made while the clock ran.
        calls: u64,
        /// Calls made before, to warm up.
        warm_calls: u64,
        /// Sum over the threads of calls per second.
        ops_s: f64,
    },
}

/// What the worker was started for.
struct Task {
    memory: bool,
    file_bytes: u64,
    paths: Vec<PathBuf>,
}

/// The whole program.
pub fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(task) = parse(&arguments) else {
        eprintln!(
            "egeria-datapath-worker: started by hand; run `egeria-lab bench datapath` instead"
        );
        return ExitCode::from(2);
    };
    let mut subject = None;
    match worker::serve(|request| answer(&task, &mut subject, request)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("egeria-datapath-worker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Option<Task> {
    let [kind, bytes, paths @ ..] = arguments else {
        return None;
    };
    let memory = match kind.as_str() {
        "memory" => true,
        "files" => false,
        _ => return None,
    };
    let file_bytes = bytes.parse().ok()?;
    let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
    (!paths.is_empty()).then_some(Task {
        memory,
        file_bytes,
        paths,
    })
}

fn answer(task: &Task, subject: &mut Option<Subject>, request: &Request) -> io::Result<Reply> {
    match request {
        Request::Prepare => {
            let make = if task.memory {
                Subject::memory
            } else {
                Subject::files
            };
            *subject = Some(make(&task.paths, task.file_bytes)?);
            Ok(Reply::Ready {
                prefaulted_bytes: 0,
            })
        }
        Request::Prefault { path } => {
            let prefaulted_bytes = prefault(path)?;
            Ok(Reply::Ready { prefaulted_bytes })
        }
        Request::Measure { threads, files, .. } => {
            let subject = subject
                .as_ref()
                .ok_or_else(|| io::Error::other("measured before prepared"))?;
            let most = match files {
                Files::Own | Files::Striped => task.paths.len(),
                Files::One | Files::Shared => CROWD,
            };
            if !(1..=most).contains(threads) {
                return Err(io::Error::other("one file for each thread, please"));
            }
            measure(subject, task.file_bytes, request)
        }
    }
}

/// Calls and seconds of one thread.
struct Pace {
    calls: u64,
    seconds: f64,
}

fn measure(subject: &Subject, file_bytes: u64, request: &Request) -> io::Result<Reply> {
    let &Request::Measure {
        operation,
        block_bytes,
        threads,
        files,
        seed,
        milliseconds,
        append_bytes,
    } = request
    else {
        return Err(io::Error::other("not a measurement"));
    };
    let case = Case {
        operation,
        block_bytes,
        threads,
        files,
    };
    let limits = Limits {
        time: Duration::from_millis(milliseconds),
        calls: match operation {
            Operation::Append => append_bytes / block_bytes,
            _ => u64::MAX,
        },
    };
    let paces = worker::in_threads(threads, |thread, barrier| {
        run_thread(subject, &case, file_bytes, thread, seed, &limits, barrier)
    })?;
    Ok(Reply::Measured {
        calls: paces.iter().map(|pace| pace.calls).sum(),
        warm_calls: u64::from(WARM_CALLS) * threads as u64,
        ops_s: paces
            .iter()
            .map(|pace| pace.calls as f64 / pace.seconds)
            .sum(),
    })
}

struct Limits {
    time: Duration,
    calls: u64,
}

fn run_thread(
    subject: &Subject,
    case: &Case,
    file_bytes: u64,
    thread: usize,
    seed: u64,
    limits: &Limits,
    barrier: &Barrier,
) -> io::Result<Pace> {
    let mut buffer = Buffer::new(case.block_bytes);
    let opened = subject.open(thread, case.operation, case.files);
    let warmed = opened.and_then(|opened| {
        let mut offsets = Offsets::new(case, file_bytes, thread, !seed);
        let mut calls = calls_on(&opened, case, &mut buffer);
        (0..WARM_CALLS).try_for_each(|_| calls.call(offsets.next()))?;
        Ok(opened)
    });
    // Everybody comes here, also after a failure, or the others would wait for ever.
    barrier.wait();
    let opened = warmed?;
    let offsets = Offsets::new(case, file_bytes, thread, seed);
    timed(
        calls_on(&opened, case, &mut buffer),
        offsets,
        case.block_bytes,
        limits,
    )
}

fn calls_on<'a>(opened: &'a Opened<'a>, case: &Case, buffer: &'a mut Buffer) -> Calls<'a> {
    Calls {
        opened,
        operation: case.operation,
        buffer,
        bytes: case.block_bytes as usize,
    }
}

fn timed(
    mut calls: impl Call,
    mut offsets: Offsets,
    block_bytes: u64,
    limits: &Limits,
) -> io::Result<Pace> {
    let batch = (BATCH_BYTES / block_bytes).max(1);
    let start = Instant::now();
    let mut made = 0;
    loop {
        for _ in 0..batch {
            calls.call(offsets.next())?;
        }
        made += batch;
        let elapsed = start.elapsed();
        if elapsed >= limits.time || made >= limits.calls {
            return Ok(Pace {
                calls: made,
                seconds: elapsed.as_secs_f64(),
            });
        }
    }
}
