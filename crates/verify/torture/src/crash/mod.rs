//! Exhaustive exploration of crashes: run short sequences of operations on small volumes in memory, stop
//! the machine at every telling instant, recover, and compare with what may be found (invariants 1 and 2).
//!
//! ```text
//!  plan ── tasks ──▶ worker ── workload ──▶ workspace: an initial state in memory, recorded ── events ──┐
//!                      ▲                                                                   ▼
//!                   report ◀── wrong? ── judge: recover, compare, write, check ◀── explore: crash images
//! ```
//!
//! docs/explanation/crash.md tells what is explored and how to read what it finds.

mod actor;
mod case;
mod damage;
mod explore;
mod grammar;
mod initial_state;
mod instant;
mod judge;
mod make;
mod operation;
mod pair;
mod plan;
mod pool_change;
mod proof;
mod record;
mod report;
mod snapshot;
mod task_runner;
mod violation;
mod worker_status;
mod workload;
mod workspace;

pub(crate) use actor::Actor;
pub use case::{replay, replay_within};
pub(crate) use damage::DAMAGES;
pub use damage::Damage;
pub use initial_state::InitialState;
pub use operation::Operation;
pub use plan::Part;
pub use pool_change::PoolChange;
pub use proof::{PlaceProof, prove};
pub use report::{CaseRow, CrashReport, Details, KindRow};
pub(crate) use snapshot::Snapshot;
pub use worker_status::{InjectedFault, RECOVERY_TIMEOUT};
pub use workload::Workload;

use crate::crew;
use egeria_harness::{Error, Result};
use egeria_harness::{Progress, silent};
use egeria_machine::Machine;
use egeria_stats::text::message_of;
use explore::{Limits, Tally};
use plan::{Extent, Task, TaskKind};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use task_runner::{Listener, TaskRunner};
use violation::Violation;
use worker_status::WorkerStatus;
use workload::Setup;

/// After so many violations an exploration ends.
const MAX_VIOLATIONS: u64 = 20;
/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// What to explore, and for how long.
pub struct CrashOptions<'a> {
    /// A part of the plan that takes seconds, not minutes.
    pub quick: bool,
    /// Given: only these parts of the plan, with more states.
    pub only: Vec<Part>,
    /// Have accesses of striped files made by delegates, on several pools.
    pub delegated: bool,
    /// End after this time.
    pub limit: Option<Duration>,
    /// End after so many states.
    pub states: Option<u64>,
    /// Decides the samples and the random sequences.
    pub seed: u64,
    /// Where cases are saved; `None`: nowhere.
    pub output_directory: Option<PathBuf>,
    /// For tests of the explorer: look at what the media would hold if the engine had none of the flushes
    /// and fences whose place contains this.
    pub omitted: Option<String>,
    /// CPU time that the recovery from one crash may take; what takes longer is something wrong.
    pub recovery_timeout: Duration,
    /// For tests of the explorer.
    pub injected_fault: Option<InjectedFault>,
    /// Threads that explore; 0: one per CPU.
    pub workers: usize,
    /// Set when somebody asks to stop: the report is then of what was done.
    pub cancel: Option<&'a AtomicBool>,
    /// Told how far it is.
    pub progress: &'a dyn Fn(&Progress<'_>),
}

impl Default for CrashOptions<'_> {
    fn default() -> Self {
        CrashOptions {
            quick: false,
            only: Vec::new(),
            delegated: false,
            limit: None,
            states: None,
            seed: 1,
            output_directory: None,
            omitted: None,
            recovery_timeout: RECOVERY_TIMEOUT,
            injected_fault: None,
            workers: 0,
            cancel: None,
            progress: &silent,
        }
    }
}

/// What the workers of an exploration share.
struct Shared {
    started: Instant,
    limit: Option<Duration>,
    states_wanted: Option<u64>,
    seed: u64,
    output_directory: Option<PathBuf>,
    omitted: Option<String>,
    is_cancelled: AtomicBool,
    tasks: Vec<Task>,
    next: AtomicUsize,
    states: AtomicU64,
    stop: AtomicBool,
    report: Mutex<CrashReport>,
    images: Mutex<HashSet<(Setup, u64)>>,
    failure: Mutex<Option<Error>>,
}

/// Explore.
///
/// # Errors
/// When a workload cannot be run at all or a case cannot be saved. Violations are in the report.
pub fn run(options: &CrashOptions<'_>) -> Result<CrashReport> {
    let shared = Arc::new(Shared::new(options));
    let mut workers: Vec<_> = (0..crew::size(options.workers))
        .map(|_| WorkerThread::new(&shared, options.injected_fault))
        .collect();
    while !workers.is_empty() {
        let cancelled = options.cancel.map(|cancel| cancel.load(Ordering::Relaxed));
        (shared.is_cancelled).store(cancelled.unwrap_or(false), Ordering::Relaxed);
        std::thread::park_timeout(TICK);
        shared.tell(options.progress);
        // A thread that hangs cannot be ended: it is left behind.
        workers.retain_mut(|worker| !worker.is_done(&shared, options.recovery_timeout));
    }
    shared.finish()
}

/// A worker's thread, from outside.
struct WorkerThread {
    thread: std::thread::JoinHandle<()>,
    status: Arc<WorkerStatus>,
    before: worker_status::Progress,
}

impl WorkerThread {
    fn new(shared: &Arc<Shared>, injected_fault: Option<InjectedFault>) -> WorkerThread {
        let (shared, status) = (shared.clone(), Arc::new(WorkerStatus::new(injected_fault)));
        let own = status.clone();
        WorkerThread {
            thread: std::thread::spawn(move || shared.work(&own)),
            before: status.progress(),
            status,
        }
    }

    /// Whether it ended, or does not any more.
    fn is_done(&mut self, shared: &Shared, recovery_timeout: Duration) -> bool {
        if self.thread.is_finished() {
            return true;
        }
        if !self.status.hangs(&mut self.before, recovery_timeout) {
            return false;
        }
        match self.status.give_up(recovery_timeout) {
            Some(found) => shared.found(&found),
            None => shared.fail(Error::failed(format!(
                "a workload did not end in {} s of CPU time",
                recovery_timeout.as_secs_f64()
            ))),
        }
        shared.stop.store(true, Ordering::Relaxed);
        true
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new(options: &CrashOptions<'_>) -> Shared {
        let extent = match (options.only.as_slice(), options.quick) {
            ([], true) => Extent::Quick,
            ([], false) => Extent::Full,
            (parts, _) => Extent::Parts(parts),
        };
        Shared {
            started: Instant::now(),
            limit: options.limit,
            states_wanted: options.states,
            seed: options.seed,
            output_directory: options.output_directory.clone(),
            omitted: options.omitted.clone(),
            is_cancelled: AtomicBool::new(false),
            tasks: plan::tasks(extent, options.seed, options.delegated),
            next: AtomicUsize::new(0),
            states: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            report: Mutex::default(),
            images: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    fn work(&self, status: &Arc<WorkerStatus>) {
        status.is_me();
        let mut worker = TaskRunner::with_status(self.seed, self.omitted.clone(), status.clone());
        while !self.stop.load(Ordering::Relaxed)
            && let Some(task) = self.tasks.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            let kind = kind_of(task);
            let mut listener = ReportListener { shared: self, kind };
            let ran = catch_unwind(AssertUnwindSafe(|| worker.run(task, &mut listener)));
            match ran {
                Ok(Ok(_)) => {}
                Ok(Err(why)) => self.fail(Error::failed(why)),
                Err(panic) => {
                    let why = message_of(&*panic);
                    self.fail(Error::failed(format!("{task:?} panicked: {why}")));
                    return;
                }
            }
        }
        locked(&self.images).extend(worker.images());
    }

    fn fail(&self, error: Error) {
        locked(&self.failure).get_or_insert(error);
        self.stop.store(true, Ordering::Relaxed);
    }

    fn tell(&self, progress: &dyn Fn(&Progress<'_>)) {
        let total = self.tasks.len() as u64;
        let done = (self.next.load(Ordering::Relaxed) as u64).min(total);
        let what = format!("{} states", self.states.load(Ordering::Relaxed));
        progress(&Progress {
            done,
            total,
            what: &what,
        });
    }

    fn has_to_stop(&self) -> bool {
        let states = self.states.load(Ordering::Relaxed);
        self.stop.load(Ordering::Relaxed)
            || self.is_cancelled.load(Ordering::Relaxed)
            || self
                .limit
                .is_some_and(|limit| self.started.elapsed() >= limit)
            || self.states_wanted.is_some_and(|wanted| states >= wanted)
    }

    /// Something is wrong: note and save it.
    fn found(&self, found: &Violation) {
        let mut report = locked(&self.report);
        report.violations += 1;
        let directory = self.output_directory.as_deref();
        let saved = directory.map(|directory| case::save(directory, found));
        let file = saved
            .transpose()
            .map_err(|error| self.fail(error))
            .ok()
            .flatten();
        report.details.cases.push(CaseRow {
            workload: found.workload.to_string(),
            reason: found.wrong.why.clone(),
            file: file.map(Into::into),
        });
        if report.violations >= MAX_VIOLATIONS {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn finish(&self) -> Result<CrashReport> {
        if let Some(error) = locked(&self.failure).take() {
            return Err(error);
        }
        let mut report = std::mem::take(&mut *locked(&self.report));
        report.unique_images = locked(&self.images).len() as u64;
        report.seconds = self.started.elapsed().as_secs_f64();
        report.details.seed = self.seed;
        report.details.stopped = self.stop.load(Ordering::Relaxed);
        report.details.by_kind.sort_by_key(|row| row.kind);
        Ok(report)
    }
}

/// A worker's way to the shared report.
struct ReportListener<'a> {
    shared: &'a Shared,
    kind: &'static str,
}

impl Listener for ReportListener<'_> {
    fn looked(&mut self, tally: Tally, found: Option<Violation>) -> bool {
        let shared = self.shared;
        shared.states.fetch_add(tally.states, Ordering::Relaxed);
        locked(&shared.report).add(self.kind, tally);
        if let Some(found) = found {
            shared.found(&found);
        }
        let stop = shared.has_to_stop();
        shared.stop.fetch_or(stop, Ordering::Relaxed);
        !stop
    }
}

fn kind_of(task: &Task) -> &'static str {
    let two = task.setup.pools > 1;
    if task.setup.snapshot {
        return "operations during a snapshot";
    }
    match (task.kind, two) {
        (TaskKind::Sequences { .. }, _) if task.setup.initial_state == InitialState::Limited => {
            "sequences, limited directories"
        }
        (TaskKind::Sequences { .. }, false) => "sequences, one pool",
        (TaskKind::Sequences { .. }, true) => "sequences, two pools",
        (TaskKind::Random { .. }, _) => "long random sequences of two attachments",
        (TaskKind::Pairs { .. }, _) => "two attachments at once",
        (TaskKind::Making, _) => "making a volume",
        (TaskKind::Repair, _) => "repairing a volume",
        (TaskKind::PoolChange(_), _) => "changing the pools of a volume",
    }
}

/// Explore one workload wholly: the states, and what is wrong after a crash, if anything is.
///
/// # Errors
/// When the workload cannot be run.
pub fn explore_one(
    initial_state: InitialState,
    pools: usize,
    workload: &Workload,
    images: usize,
) -> Result<(u64, Option<String>)> {
    explore_elsewhere(initial_state, pools, workload, images, None)
}

/// As [`explore_one`], but what recovers is another machine than what crashed.
///
/// # Errors
/// When the workload cannot be run.
pub fn explore_elsewhere(
    initial_state: InitialState,
    pools: usize,
    workload: &Workload,
    images: usize,
    machine: Option<Machine>,
) -> Result<(u64, Option<String>)> {
    let setup = Setup::new(initial_state, pools);
    let mut workspace = workspace::Workspace::new(setup).map_err(Error::failed)?;
    workspace.judge.options.machine = machine;
    let recorded = workspace.record(workload).map_err(Error::failed)?;
    let Some(recorded) = recorded else {
        return Ok((0, None));
    };
    let limits = Limits {
        images,
        images_in_recovery: images,
        seed: 1,
    };
    let mut tally = Tally::default();
    let explored = explore::explore(&mut workspace, recorded, limits, &mut tally);
    Ok((tally.states, explored.err().map(|wrong| wrong.why)))
}
