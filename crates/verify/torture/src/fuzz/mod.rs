//! Fuzzing: inputs nobody vouches for, forged with right checksums and in every other way, and everything
//! done with them that can be done. Nothing may panic, hang, or reach beyond a pool (invariant 4).
//!
//! ```text
//!  watcher ── starts, looks at ──▶ worker process ── choice: fresh, or more of what was new ──┐
//!     │                               │    ▲                                                  ▼
//!   report ◀── case, message ── page ┘    └──────── what happened ──────── subject: sample, changes, use
//! ```
//!
//! A case is a handful of numbers from which everything about it follows, so a worker that dies leaves
//! enough on its status page. docs/explanation/fuzz.md tells what is fuzzed and how to read what it finds.

mod case;
mod heap;
mod image;
mod machine;
mod options;
mod other_user;
mod path;
mod report;
mod request;
mod settings;
mod status_page;
mod subject;
mod target;
mod text_mutator;
mod trace;
mod values;
mod worker;
mod worker_process;
mod workload;

pub use heap::BoundedHeap;
pub use options::FuzzOptions;
pub use report::{CaseRow, Details, FuzzReport, TargetRow};
pub use target::Target;
pub use worker::main;

use crate::case_file::Replayed;
use crate::crew;
use egeria_harness::Progress;
use egeria_harness::Result;
use egeria_harness::process;
use egeria_harness::program;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use worker_process::{End, Worker};

/// Name of the program that tries cases.
const WORKER: &str = "egeria-fuzz-worker";
/// After so many findings a run ends.
const MAX_FINDINGS: u64 = 100;
/// After so many that read differently, too.
const MAX_CASES: usize = 20;
/// How long a case that is shown again may take.
const REPLAY_LIMIT: Duration = Duration::from_secs(120);
/// How often workers are looked at.
const TICK: Duration = Duration::from_millis(20);

/// Inputs of a whole run.
fn whole(target: Target) -> u64 {
    match target {
        Target::Image => 1_000_000,
        Target::Request => 200_000,
        Target::Trace | Target::Machine | Target::Settings => 500_000,
        Target::Workload | Target::Path => 200_000,
        Target::OtherUser => 2000,
    }
}

/// Fuzz.
///
/// # Errors
/// When workers cannot be started or a case cannot be saved. Findings are in the report.
pub fn run(options: &FuzzOptions<'_>) -> Result<FuzzReport> {
    let program = program::find_beside(options.worker.as_deref(), WORKER, "EGERIA_FUZZ_WORKER")?;
    let started = Instant::now();
    let mut report = FuzzReport::default();
    report.details.seed = options.seed;
    for &target in &options.targets {
        if report.details.stopped {
            break;
        }
        if let Some(why) = target.missing() {
            report.details.skipped.push(format!("{target}: {why}"));
            continue;
        }
        let mut run_of_target = TargetRun {
            options,
            program: &program,
            target,
            started: Instant::now(),
            row: TargetRow::new(target),
            report: &mut report,
        };
        run_of_target.run()?;
        let mut row = run_of_target.row;
        row.seconds = run_of_target.started.elapsed().as_secs_f64();
        report.runs += row.runs;
        report.findings += row.findings;
        report.details.by_target.push(row);
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

struct TargetRun<'a, 'b> {
    options: &'a FuzzOptions<'b>,
    program: &'a Path,
    target: Target,
    started: Instant,
    row: TargetRow,
    report: &'a mut FuzzReport,
}

/// A worker's place: who is there now, and what is left to do.
struct WorkerSlot {
    number: u64,
    /// How many were there.
    restarts: u64,
    left: u64,
    worker: Option<Worker>,
}

impl TargetRun<'_, '_> {
    fn run(&mut self) -> Result<()> {
        let total = self.options.runs.unwrap_or(whole(self.target));
        let count = crew::size(self.options.workers) as u64;
        let mut slots: Vec<WorkerSlot> = (0..count)
            .map(|number| WorkerSlot {
                number,
                restarts: 0,
                left: total / count + u64::from(number < total % count),
                worker: None,
            })
            .collect();
        loop {
            let mut busy = false;
            for slot in &mut slots {
                busy |= self.look(slot)?;
            }
            self.tell(total, &slots);
            if !busy {
                return Ok(());
            }
            std::thread::sleep(TICK);
        }
    }

    /// Look after one place; whether anybody works there.
    fn look(&mut self, slot: &mut WorkerSlot) -> Result<bool> {
        let ends = self.has_to_stop();
        let Some(worker) = &mut slot.worker else {
            if slot.left == 0 || ends {
                return Ok(false);
            }
            let seed = egeria_stats::rng::mix_all(&[self.options.seed, slot.number, slot.restarts]);
            let worker = Worker::start(self.program, self.target, (seed, slot.left), self.options)?;
            slot.worker = Some(worker);
            slot.restarts += 1;
            return Ok(true);
        };
        if ends {
            worker.stop();
        }
        let Some(end) = worker.look()? else {
            return Ok(true);
        };
        let done = worker.page.done();
        self.count(worker, done);
        slot.left = match end {
            End::Done => 0,
            End::Wrong(why) => {
                let case = worker.page.case();
                self.row.runs += 1;
                self.found(&case, &why)?;
                slot.left.saturating_sub(done + 1)
            }
        };
        slot.worker = None;
        Ok(slot.left > 0)
    }

    fn count(&mut self, worker: &Worker, done: u64) {
        let words = worker.page.words();
        let row = &mut self.row;
        row.runs += done;
        row.corpus += words.corpus.load(Ordering::Relaxed);
        row.slowest_ns = row.slowest_ns.max(words.slowest_ns.load(Ordering::Relaxed));
        row.heap_bytes = row.heap_bytes.max(words.heap_bytes.load(Ordering::Relaxed));
    }

    fn found(&mut self, case: &subject::Case, why: &str) -> Result<()> {
        self.row.findings += 1;
        let alike =
            |row: &CaseRow| row.target == self.target && words_of(&row.reason) == words_of(why);
        if self.report.details.cases.iter().any(alike) {
            return Ok(());
        }
        let directory = self.options.output_directory.as_deref();
        let saved = directory.map(|directory| case::save(directory, self.target, case, why));
        self.report.details.cases.push(CaseRow {
            target: self.target,
            reason: why.to_owned(),
            file: saved.transpose()?.map(Into::into),
        });
        Ok(())
    }

    fn has_to_stop(&mut self) -> bool {
        let cancelled = |cancel: &AtomicBool| cancel.load(Ordering::Relaxed);
        let too_many =
            self.row.findings >= MAX_FINDINGS || self.report.details.cases.len() >= MAX_CASES;
        let over = self
            .options
            .limit
            .is_some_and(|limit| self.started.elapsed() >= limit);
        let stopped = too_many || self.options.cancel.is_some_and(cancelled);
        self.report.details.stopped |= stopped;
        stopped || over
    }

    fn tell(&self, total: u64, slots: &[WorkerSlot]) {
        let working = slots.iter().filter_map(|slot| slot.worker.as_ref());
        let done = self.row.runs + working.map(|worker| worker.page.done()).sum::<u64>();
        let what = format!("{}, {} findings", self.target, self.row.findings);
        (self.options.progress)(&Progress {
            done: done.min(total),
            total,
            what: &what,
        });
    }
}

/// What tells findings apart: not their numbers.
fn words_of(text: &str) -> Vec<&str> {
    text.split(|letter: char| !letter.is_alphabetic())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Try a saved case again, in a process of its own, and tell what happens in words.
///
/// # Errors
/// When the file is no case, or the program cannot be run.
pub fn replay(file: &Path, worker: Option<&Path>) -> Result<Replayed> {
    let saved = case::load(file)?;
    let program = program::find_beside(worker, WORKER, "EGERIA_FUZZ_WORKER")?;
    let mut command = Command::new(&program);
    command.arg("show").arg(file);
    if let Some(egeria) = other_user::egeria_program() {
        command.env(other_user::PROGRAM, egeria);
    }
    let ended = process::run(&mut command, REPLAY_LIMIT, None)?;
    let (sample, why) = (saved.case.sample, saved.reason);
    let mut text = format!("{}, sample {sample}, found: {why}\n", saved.target);
    text += &ended.stdout;
    text += &ended.stderr;
    if ended.status.code().is_none() {
        text += &format!("the process ended: {}\n", ended.status);
    }
    Ok(Replayed {
        text: text.trim_end().to_owned(),
        reproduces: !ended.status.success(),
    })
}
