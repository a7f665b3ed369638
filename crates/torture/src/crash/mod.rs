//! Exhaustive exploration of crashes: run short sequences of operations on small volumes in memory, stop
//! the machine at every telling instant, recover, and compare with what may be found (invariants 1 and 2).
//!
//! ```text
//!  plan ── tasks ──▶ worker ── workload ──▶ stage: a scene in memory, recorded ── events ──┐
//!                      ▲                                                                   ▼
//!                   report ◀── wrong? ── judge: recover, compare, write, check ◀── explore: crash images
//! ```
//!
//! docs/explanation/crash.md tells what is explored and how to read what it finds.

mod case;
mod explore;
mod grammar;
mod judge;
mod make;
mod operation;
mod pair;
mod plan;
mod proof;
mod report;
mod scene;
mod snapshot;
mod stage;
mod watch;
mod worker;
mod workload;

pub use case::{replay, replay_within};
pub(crate) use make::DAMAGES;
pub use make::Damage;
pub(crate) use operation::Actor;
pub use operation::Operation;
pub use proof::{PlaceProof, prove};
pub use report::{CaseRow, CrashReport, Details, KindRow};
pub use scene::Scene;
pub use watch::{PATIENCE, Trip};
pub use workload::Workload;

use egeria_harness::text::message_of;
use egeria_harness::{Error, Result};
use egeria_harness::{Progress, silent};
use egeria_machine::Machine;
use explore::{Limits, Tally};
use plan::{Extent, Task, Unit};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use watch::Watched;
use worker::{Found, Listener, Worker};
use workload::Ground;

/// After so many violations an exploration ends.
const MAX_VIOLATIONS: u64 = 20;
/// How often progress is told.
const TICK: Duration = Duration::from_millis(100);

/// What to explore, and for how long.
pub struct CrashOptions<'a> {
    /// A part of the plan that takes seconds, not minutes.
    pub quick: bool,
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
    pub without: Option<String>,
    /// CPU time that the recovery from one crash may take; what takes longer is something wrong.
    pub patience: Duration,
    /// For tests of the explorer.
    pub trip: Option<Trip>,
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
            limit: None,
            states: None,
            seed: 1,
            output_directory: None,
            without: None,
            patience: PATIENCE,
            trip: None,
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
    without: Option<String>,
    is_cancelled: AtomicBool,
    tasks: Vec<Task>,
    next: AtomicUsize,
    states: AtomicU64,
    stop: AtomicBool,
    report: Mutex<CrashReport>,
    images: Mutex<HashSet<(Ground, u64)>>,
    failure: Mutex<Option<Error>>,
}

/// Explore.
///
/// # Errors
/// When a workload cannot be run at all or a case cannot be saved. Violations are in the report.
pub fn run(options: &CrashOptions<'_>) -> Result<CrashReport> {
    let shared = Arc::new(Shared::new(options));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = if options.workers == 0 {
        cpus
    } else {
        options.workers
    };
    let mut workers: Vec<_> = (0..workers)
        .map(|_| Hired::new(&shared, options.trip))
        .collect();
    while !workers.is_empty() {
        let cancelled = options.cancel.map(|cancel| cancel.load(Ordering::Relaxed));
        (shared.is_cancelled).store(cancelled.unwrap_or(false), Ordering::Relaxed);
        std::thread::park_timeout(TICK);
        shared.tell(options.progress);
        // A thread that hangs cannot be ended: it is left behind.
        workers.retain_mut(|worker| !worker.is_done(&shared, options.patience));
    }
    shared.finish()
}

/// A worker's thread, from outside.
struct Hired {
    thread: std::thread::JoinHandle<()>,
    watched: Arc<Watched>,
    before: watch::Progress,
}

impl Hired {
    fn new(shared: &Arc<Shared>, trip: Option<Trip>) -> Hired {
        let (shared, watched) = (shared.clone(), Arc::new(Watched::new(trip)));
        let own = watched.clone();
        Hired {
            thread: std::thread::spawn(move || shared.work(&own)),
            before: watched.progress(),
            watched,
        }
    }

    /// Whether it ended, or does not any more.
    fn is_done(&mut self, shared: &Shared, patience: Duration) -> bool {
        if self.thread.is_finished() {
            return true;
        }
        if !self.watched.hangs(&mut self.before, patience) {
            return false;
        }
        match self.watched.give_up(patience) {
            Some(found) => shared.found(&found),
            None => shared.fail(Error::failed(format!(
                "a workload did not end in {} s of CPU time",
                patience.as_secs_f64()
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
        let extent = if options.quick {
            Extent::Quick
        } else {
            Extent::Full
        };
        Shared {
            started: Instant::now(),
            limit: options.limit,
            states_wanted: options.states,
            seed: options.seed,
            output_directory: options.output_directory.clone(),
            without: options.without.clone(),
            is_cancelled: AtomicBool::new(false),
            tasks: plan::tasks(extent, options.seed),
            next: AtomicUsize::new(0),
            states: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            report: Mutex::default(),
            images: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    fn work(&self, watched: &Arc<Watched>) {
        watched.is_me();
        let mut worker = Worker::watched(self.seed, self.without.clone(), watched.clone());
        while !self.stop.load(Ordering::Relaxed)
            && let Some(task) = self.tasks.get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            let kind = kind_of(task);
            let mut listener = Ear { shared: self, kind };
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
    fn found(&self, found: &Found) {
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
            why: found.wrong.why.clone(),
            file,
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
struct Ear<'a> {
    shared: &'a Shared,
    kind: &'static str,
}

impl Listener for Ear<'_> {
    fn looked(&mut self, tally: Tally, found: Option<Found>) -> bool {
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
    let two = task.ground.pools > 1;
    match (task.unit, two) {
        (Unit::Sequences { .. }, false) => "sequences, one pool",
        (Unit::Sequences { .. }, true) => "sequences, two pools",
        (Unit::Random { .. }, _) => "long random sequences of two attachments",
        (Unit::Pairs { .. }, _) => "two attachments at once",
        (Unit::Making, _) => "making a volume",
        (Unit::Repair, _) => "repairing a volume",
    }
}

/// Explore one workload wholly: the states, and what is wrong after a crash, if anything is.
///
/// # Errors
/// When the workload cannot be run.
pub fn explore_one(
    scene: Scene,
    pools: usize,
    workload: &Workload,
    images: usize,
) -> Result<(u64, Option<String>)> {
    explore_elsewhere(scene, pools, workload, images, None)
}

/// As [`explore_one`], but what recovers is another machine than what crashed.
///
/// # Errors
/// When the workload cannot be run.
pub fn explore_elsewhere(
    scene: Scene,
    pools: usize,
    workload: &Workload,
    images: usize,
    machine: Option<Machine>,
) -> Result<(u64, Option<String>)> {
    let mut stage = stage::Stage::new(scene, pools).map_err(Error::failed)?;
    stage.judge.options.machine = machine;
    let recorded = workload.record(&mut stage).map_err(Error::failed)?;
    let Some(recorded) = recorded else {
        return Ok((0, None));
    };
    let limits = Limits {
        images,
        images_in_recovery: images,
        seed: 1,
    };
    let mut tally = Tally::default();
    let explored = explore::explore(&mut stage, recorded, limits, &mut tally);
    Ok((tally.states, explored.err().map(|wrong| wrong.why)))
}
