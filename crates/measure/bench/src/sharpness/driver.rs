//! Runs the program, and looks at it in each way.

use std::os::unix::fs::DirBuilderExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egeria_actuators::Journal;
use egeria_facts::ProcessKey;
use egeria_harness::{Error, Result};
use egeria_machine::Machine;
use egeria_pages::accesses::damon::Notes;
use egeria_pages::accesses::{Choice, Way};
use egeria_proc::task;
use egeria_stats::statistics::median;
use rustix::time::{ClockId, clock_gettime};

use super::options::SharpnessOptions;
use super::ranking;
use super::report::{Row, SharpnessReport};
use super::subject::Memory;
use crate::programs::worker::Worker;

/// Ways that see memory which a program has already, without a PMU.
const WAYS: [Way; 2] = [Way::PageTables, Way::Damon];
const LAYOUTS: [&str; 2] = ["joined", "apart"];
/// How long the program may take for an answer.
const PATIENCE: Duration = Duration::from_secs(600);

/// What one window gave.
struct Window {
    found: Option<(f64, f64)>,
    looking: Duration,
    kernel: Duration,
}

/// Measures.
///
/// # Errors
/// When the program cannot be started. A way that does not work here has rows that say so.
pub fn run(options: &SharpnessOptions<'_>) -> Result<SharpnessReport> {
    let machine = Machine::detect().map_err(Error::failed)?;
    let journal = journal()?;
    let notes: Notes = {
        let journal = journal.clone();
        Arc::new(move |change| journal.add(change))
    };
    let mut rows = Vec::new();
    let all = LAYOUTS.len() * options.piece_bytes.len() * WAYS.len();
    for layout in LAYOUTS {
        for piece_bytes in &options.piece_bytes {
            for way in WAYS {
                let what = format!("{layout} pieces of {} KiB, {way}", piece_bytes >> 10);
                options.watch.step(rows.len(), all, &what)?;
                let choice = Choice::make(Some(way), &machine, options.window, &notes);
                rows.push(row(options, (layout, *piece_bytes, way), choice)?);
            }
        }
    }
    journal.remove();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Ok(SharpnessReport {
        window_ms: options.window.as_secs_f64() * 1e3,
        windows: options.windows - options.windows / 2,
        memory_bytes: options.memory_bytes,
        kernel: kernel.trim().to_owned(),
        rows,
    })
}

/// What is set up in the kernel is undone at the next run after a kill.
fn journal() -> Result<Journal> {
    let directory = egeria_steward::runtime_directory();
    let hint = "set EGERIA_RUNTIME_DIR to a directory of your own";
    let failed = |error| Error::io(format!("cannot use {}", directory.display()), error, hint);
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(&directory);
    made.map_err(failed)?;
    let directory = egeria_files::directory(&directory).map_err(failed)?;
    let path = directory.join("sharpness.journal.jsonl");
    let (journal, _) =
        Journal::open(&path, &path).map_err(|error| Error::failed(error.to_string()))?;
    Ok(journal)
}

fn row(
    options: &SharpnessOptions<'_>,
    (layout, piece_bytes, way): (&'static str, u64, Way),
    choice: std::result::Result<Choice, String>,
) -> Result<Row> {
    let mut row = Row {
        layout,
        piece_bytes,
        source: way.name(),
        used_found: None,
        unused_found: None,
        looking_ms: None,
        kernel_ms: None,
        missing: None,
    };
    let mut choice = match choice {
        Ok(choice) => choice,
        Err(why) => {
            row.missing = Some(why);
            return Ok(row);
        }
    };
    let mut command = Command::new(&options.program.0);
    command.args(&options.program.1).arg(layout);
    command.args([options.memory_bytes, piece_bytes].map(|bytes| bytes.to_string()));
    let mut worker = Worker::start(&mut command, "a program", PATIENCE)?;
    let memory: Memory = worker.ask(&(), options.watch.cancel)?;
    let Some(process) = task::process(worker.process_id) else {
        return Err(Error::failed(
            "the program ended early; see its message above",
        ));
    };
    let mut windows = Vec::with_capacity(options.windows);
    let mut next = Instant::now();
    for _ in 0..options.windows {
        next += options.window;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        egeria_harness::process::check_cancel(options.watch.cancel)?;
        windows.push(look(&mut choice, process, &memory));
    }
    let late = &windows[options.windows / 2..];
    let found = |of: fn((f64, f64)) -> f64| {
        let found = late.iter().filter_map(|window| window.found);
        median(&found.map(of).collect::<Vec<_>>())
    };
    row.used_found = found(|found| found.0);
    row.unused_found = found(|found| found.1);
    // A mean: a thread of its own does not look in every window.
    let mean_ms = |of: fn(&Window) -> Duration| {
        let all: Duration = late.iter().map(of).sum();
        Some(all.as_secs_f64() * 1e3 / late.len() as f64)
    };
    row.looking_ms = mean_ms(|window| window.looking);
    row.kernel_ms = mean_ms(|window| window.kernel);
    Ok(row)
}

/// One look, as a steward takes it.
fn look(choice: &mut Choice, process: ProcessKey, memory: &Memory) -> Window {
    let before = own_cpu();
    choice.sampler.keep(&[process]);
    let samples = choice.sampler.sample(&[process]);
    let own = own_cpu().saturating_sub(before);
    let spent = choice.sampler.take_spent();
    let sample = samples.iter().find(|sample| sample.process == process);
    Window {
        found: sample.and_then(|sample| ranking::found(&sample.regions, &memory.used, &memory.all)),
        looking: own + spent.own,
        kernel: spent.kernel,
    }
}

/// CPU time of this thread.
fn own_cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}
