//! Crowds of workers of which now and then one process dies.

use crate::common::Scratch;
use egeria_engine::*;
use egeria_harness::fork::Forked;
use egeria_harness::process::Deadline;
use egeria_stats::rng::Rng;
use egeria_torture::kill::engine::Engine;
use egeria_torture::kill::ledger::Ledger;
use egeria_torture::kill::verify::{self, Commons, Ended, Verdict};
use egeria_torture::kill::worker::work;
use rustix::process::{Signal, set_parent_process_death_signal};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const PROCESSES: usize = 3;
const THREADS: u64 = 2;
/// Who takes longer for one step waits for somebody who never comes.
const LONGEST_NS: u64 = 20_000_000_000;
/// Steps of a worker that is not killed before.
const PROCESS_STEPS: u64 = 400;
/// Steps between attaching and leaving.
const VISIT_STEPS: u64 = 4;

/// A process of workers.
struct WorkerProcess(Forked);

impl WorkerProcess {
    /// Fork; the caller has one thread only.
    fn start(body: impl Fn()) -> WorkerProcess {
        let child = Forked::run_well(|| {
            set_parent_process_death_signal(Some(Signal::KILL)).expect("prctl");
            body();
            true
        });
        WorkerProcess(child.expect("fork"))
    }

    /// Kill and wait; its workers that were in the middle of their steps.
    fn kill(&self, ledger: &Ledger) -> Vec<Ended> {
        let process = self.0.id();
        let status = self.0.kill();
        // One that found no more work has ended in order.
        assert!(
            status.signal().is_some() || status.success(),
            "process {process} failed: {status}"
        );
        let own = |id: &u64| ledger.page(*id).process.load(Ordering::Acquire) == process as u64;
        (0..ledger.worker_count())
            .filter(own)
            .map(|id| Ended::of(ledger, id))
            .filter(|worker| worker.killed)
            .collect()
    }
}

/// What hangs ends this process by a signal.
fn guarded<T>(body: impl FnOnce() -> T) -> T {
    let _deadline = Deadline::in_seconds(60);
    body()
}

fn pause(random: &mut Rng, max_us: u64) {
    std::thread::sleep(Duration::from_micros(1000 + random.below(max_us)));
}

/// Kill processes of workers while others go on. One process stays attached and reaps.
pub fn kill_workers(deaths: u64, random: &mut Rng) {
    // Nothing is removed before the end.
    let scratch = Scratch::new(2, (256 + 2 * deaths) << 20);
    let path = scratch.directory.path().join("ledger");
    let ledger = Ledger::open(&path).expect("ledger");
    let volume = scratch.attach();
    let commons = Commons::make(&volume).expect("what everybody uses");
    let start = || WorkerProcess::start(|| attached_process(&volume, &ledger, 16 * deaths));
    let mut processes: Vec<WorkerProcess> = (0..PROCESSES).map(|_| start()).collect();
    let mut ended = BTreeMap::new();
    for _ in 0..deaths {
        pause(random, 8000);
        let at = random.below(processes.len() as u64) as usize;
        let dead = processes[at].kill(&ledger);
        processes[at] = start();
        // Sometimes the dead are left to the others for a while.
        if random.below(3) > 0 {
            guarded(|| volume.reap());
        }
        guarded(|| {
            for worker in &dead {
                verify::verify_home(&volume, *worker).unwrap();
            }
        });
        ended.extend(dead.into_iter().map(|worker| (worker.id, worker)));
    }
    for process in processes {
        let dead = process.kill(&ledger);
        ended.extend(dead.into_iter().map(|worker| (worker.id, worker)));
    }
    guarded(|| volume.reap());
    verify_all(&scratch, volume, &commons, &ledger, ended);
}

fn attached_process(volume: &Arc<Volume>, ledger: &Ledger, most: u64) {
    volume.after_fork_in_child();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                // A volume holds so many workers' files; the last ones wait for their end.
                while let Some(id) = ledger.add_worker().filter(|id| *id < most) {
                    work(&Engine(volume), ledger, id, 0..PROCESS_STEPS);
                    volume.thread_exit();
                }
                loop {
                    std::thread::sleep(Duration::from_secs(1));
                }
            });
        }
    });
}

fn verify_all(
    scratch: &Scratch,
    volume: Arc<Volume>,
    commons: &Commons,
    ledger: &Ledger,
    mut ended: BTreeMap<u64, Ended>,
) {
    for id in 0..ledger.worker_count() {
        // Who was hired and killed at once is in no process.
        ended.entry(id).or_insert(Ended::of(ledger, id));
    }
    let ended: Vec<Ended> = ended.into_values().collect();
    let ended = &ended[..];
    assert_eq!(ledger.faults(), 0, "a step went wrong: see above");
    let (longest_ns, worker, step) = ledger.longest();
    assert!(
        longest_ns < LONGEST_NS,
        "worker {worker} waited {longest_ns} ns, last in step {step}"
    );
    let holds = |verdict: &dyn Fn() -> Verdict| guarded(verdict).unwrap();
    for worker in ended {
        holds(&|| verify::verify_home(&volume, *worker));
    }
    holds(&|| verify::verify_names(&volume, commons, ended));
    holds(&|| verify::verify_log(&volume, commons, ended));
    holds(&|| verify::verify_commons(&volume, commons));
    holds(&|| verify::empty(&volume, InodeNumber::ROOT));
    let steps: u64 = ended.iter().map(|worker| worker.steps).sum();
    let (leaked, report) = verify::leaked(volume, &scratch.pools[0]).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let leaked = leaked.blocks;
    eprintln!(
        "{} workers took {steps} steps, the longest {longest_ns} ns; leaked blocks {leaked}",
        ended.len()
    );
    // Who dies between two stores of a hand-over may lose one run until the next session.
    assert!(
        leaked.unsigned_abs() <= ended.len() as u64,
        "{leaked} blocks leaked"
    );
}

/// Kill processes that attach and leave all the time, so that sessions are made, joined and ended;
/// nobody stays attached.
pub fn kill_visitors(deaths: u64, random: &mut Rng) {
    let scratch = Scratch::new(1, 64 << 20);
    let path = scratch.directory.path().join("ledger");
    let ledger = Ledger::open(&path).expect("ledger");
    let volume = scratch.attach();
    let commons = Commons::make(&volume).expect("what everybody uses");
    let uuid = volume.uuid();
    drop(volume);
    let pool = scratch.pools[0].clone();
    let start = || WorkerProcess::start(|| visit(&pool, &ledger));
    let mut processes: Vec<WorkerProcess> = (0..2).map(|_| start()).collect();
    let mut ended = BTreeMap::new();
    for _ in 0..deaths {
        pause(random, 20_000);
        let at = random.below(processes.len() as u64) as usize;
        let dead = processes[at].kill(&ledger);
        ended.extend(dead.into_iter().map(|worker| (worker.id, worker)));
        processes[at] = start();
    }
    for process in processes {
        let dead = process.kill(&ledger);
        ended.extend(dead.into_iter().map(|worker| (worker.id, worker)));
    }
    let volume = guarded(|| scratch.attach());
    verify_all(&scratch, volume, &commons, &ledger, ended);
    let left = crate::common::segments(uuid);
    assert!(left.is_empty(), "sessions of nobody: {left:?}");
}

fn visit(pool: &Path, ledger: &Ledger) {
    let id = ledger.add_worker().expect("a worker's number");
    for visit in 0.. {
        let volume = Volume::attach(pool, AttachMode::CreateOrJoin, &AttachOptions::default())
            .expect("attach");
        let first = visit * VISIT_STEPS;
        work(&Engine(&volume), ledger, id, first..first + VISIT_STEPS);
        volume.thread_exit();
        drop(volume);
    }
}
