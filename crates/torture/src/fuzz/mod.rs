//! Fuzzing: inputs nobody vouches for, forged with right checksums and in every other way, and everything
//! done with them that can be done. Nothing may panic, hang, or reach beyond a pool (invariant 4).
//!
//! ```text
//!  watcher ── starts, looks at ──▶ worker process ── choice: fresh, or more of what was new ──┐
//!     │                               │    ▲                                                  ▼
//!   report ◀── case, message ── board ┘    └──────── what happened ──────── subject: sample, changes, use
//! ```
//!
//! A case is a handful of numbers from which everything about it follows, so a worker that dies leaves
//! enough on its board. docs/explanation/fuzz.md tells what is fuzzed and how to read what it finds.

mod board;
mod case;
mod crew;
mod dice;
mod heap;
mod image;
mod machine;
mod report;
mod request;
mod scribble;
mod settings;
mod stranger;
mod target;
mod trace;
mod worker;
mod workload;

pub use heap::BoundedHeap;
pub use report::{CaseRow, Details, FuzzReport, TargetRow};
pub use target::Target;
pub use worker::main;

use crate::case_file::Replayed;
use crew::{End, Worker};
use egeria_harness::Result;
use egeria_harness::process;
use egeria_harness::program;
use egeria_harness::{Progress, silent};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

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

/// What to fuzz, and for how long.
pub struct FuzzOptions<'a> {
    /// One after the other.
    pub targets: Vec<Target>,
    /// Inputs of each target; `None`: as many as its whole run has.
    pub runs: Option<u64>,
    /// End of each target after this time.
    pub limit: Option<Duration>,
    /// Decides everything random.
    pub seed: u64,
    /// Where cases are saved; `None`: nowhere.
    pub output_directory: Option<PathBuf>,
    /// Processes at a time; 0: one per CPU.
    pub workers: usize,
    /// The workers' program; else from the environment, or beside this one.
    pub worker: Option<PathBuf>,
    /// The `egeria` program, for what other users leave for its commands; else from the environment, or beside this one.
    pub egeria: Option<PathBuf>,
    /// For tests of the fuzzer: how every worker goes wrong in its twentieth case.
    pub fault: Option<String>,
    /// Set when somebody asks to stop: the report is then of what was done.
    pub cancel: Option<&'a AtomicBool>,
    /// Told how far it is.
    pub progress: &'a dyn Fn(&Progress<'_>),
}

impl Default for FuzzOptions<'_> {
    fn default() -> Self {
        FuzzOptions {
            targets: Target::ALL.to_vec(),
            runs: None,
            limit: None,
            seed: 1,
            output_directory: None,
            workers: 0,
            worker: None,
            egeria: None,
            fault: None,
            cancel: None,
            progress: &silent,
        }
    }
}

/// Inputs of a whole run.
fn whole(target: Target) -> u64 {
    match target {
        Target::Image => 1_000_000,
        Target::Request => 200_000,
        Target::Trace | Target::Machine | Target::Settings => 500_000,
        Target::Workload => 200_000,
        Target::Stranger => 2000,
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
        let mut watch = Watch {
            options,
            program: &program,
            target,
            started: Instant::now(),
            row: TargetRow::new(target),
            report: &mut report,
        };
        watch.run()?;
        let mut row = watch.row;
        row.seconds = watch.started.elapsed().as_secs_f64();
        report.runs += row.runs;
        report.findings += row.findings;
        report.details.by_target.push(row);
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// The run of one target.
struct Watch<'a, 'b> {
    options: &'a FuzzOptions<'b>,
    program: &'a Path,
    target: Target,
    started: Instant,
    row: TargetRow,
    report: &'a mut FuzzReport,
}

/// A worker's place: who is there now, and what is left to do.
struct Post {
    number: u64,
    /// How many were there.
    shifts: u64,
    left: u64,
    worker: Option<Worker>,
}

impl Watch<'_, '_> {
    fn run(&mut self) -> Result<()> {
        let total = self.options.runs.unwrap_or(whole(self.target));
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let count = match self.options.workers {
            0 => cpus,
            workers => workers,
        } as u64;
        let mut posts: Vec<Post> = (0..count)
            .map(|number| Post {
                number,
                shifts: 0,
                left: total / count + u64::from(number < total % count),
                worker: None,
            })
            .collect();
        loop {
            let mut busy = false;
            for post in &mut posts {
                busy |= self.look(post)?;
            }
            self.tell(total, &posts);
            if !busy {
                return Ok(());
            }
            std::thread::sleep(TICK);
        }
    }

    /// Look after one place; whether anybody works there.
    fn look(&mut self, post: &mut Post) -> Result<bool> {
        let ends = self.has_to_stop();
        let Some(worker) = &mut post.worker else {
            if post.left == 0 || ends {
                return Ok(false);
            }
            let seed = dice::mix_all(&[self.options.seed, post.number, post.shifts]);
            let worker = Worker::start(self.program, self.target, (seed, post.left), self.options)?;
            post.worker = Some(worker);
            post.shifts += 1;
            return Ok(true);
        };
        if ends {
            worker.stop();
        }
        let Some(end) = worker.look()? else {
            return Ok(true);
        };
        let done = worker.board.done();
        self.count(worker, done);
        post.left = match end {
            End::Done => 0,
            End::Wrong(why) => {
                let case = worker.board.case();
                self.row.runs += 1;
                self.found(&case, &why)?;
                post.left.saturating_sub(done + 1)
            }
        };
        post.worker = None;
        Ok(post.left > 0)
    }

    fn count(&mut self, worker: &Worker, done: u64) {
        let words = worker.board.words();
        let row = &mut self.row;
        row.runs += done;
        row.kept += words.kept.load(Ordering::Relaxed);
        row.slowest_ns = row.slowest_ns.max(words.slowest_ns.load(Ordering::Relaxed));
        row.heap_bytes = row.heap_bytes.max(words.heap_bytes.load(Ordering::Relaxed));
    }

    fn found(&mut self, case: &target::Case, why: &str) -> Result<()> {
        self.row.findings += 1;
        let alike =
            |row: &CaseRow| row.target == self.target && words_of(&row.why) == words_of(why);
        if self.report.details.cases.iter().any(alike) {
            return Ok(());
        }
        let directory = self.options.output_directory.as_deref();
        let saved = directory.map(|directory| case::save(directory, self.target, case, why));
        self.report.details.cases.push(CaseRow {
            target: self.target,
            why: why.to_owned(),
            file: saved.transpose()?,
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

    fn tell(&self, total: u64, posts: &[Post]) {
        let working = posts.iter().filter_map(|post| post.worker.as_ref());
        let done = self.row.runs + working.map(|worker| worker.board.done()).sum::<u64>();
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
    if let Some(egeria) = stranger::egeria_program() {
        command.env(stranger::PROGRAM, egeria);
    }
    let ended = process::run(&mut command, REPLAY_LIMIT, None)?;
    let (sample, why) = (saved.case.sample, saved.why);
    let mut text = format!("{}, sample {sample}, found: {why}\n", saved.target);
    text += &ended.stdout;
    text += &ended.stderr;
    if ended.status.code().is_none() {
        text += &format!("the process ended: {}\n", ended.status);
    }
    Ok(Replayed {
        text: text.trim_end().to_owned(),
        is_wrong: !ended.status.success(),
    })
}
