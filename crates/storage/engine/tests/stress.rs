//! Several processes of several threads on the same files, directories and log, none of them killed: what
//! each did is there, nothing is mixed, nobody waits long, and all space comes back.
//!
//! `EGERIA_TEST_CASES` sets how many steps each thread takes.

mod common;

use common::Scratch;
use egeria_engine::*;
use egeria_harness::testing::wait_within;
use egeria_torture::kill::engine::Engine;
use egeria_torture::kill::ledger::Ledger;
use egeria_torture::kill::verify::{self, Commons, Ended, Leaked};
use egeria_torture::kill::worker;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

const ROLE: &str = "EGERIA_TEST_STRESS";
const PROCESSES: u64 = 3;
const THREADS: u64 = 3;
/// How long a worker may take for all of its work, also under valgrind.
const LONGEST_RUN: Duration = Duration::from_secs(850);
/// Who takes longer for one step waits for somebody who never comes; far above what a busy machine needs.
const LONGEST_NS: u64 = 20_000_000_000;

fn steps() -> u64 {
    std::env::var("EGERIA_TEST_CASES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(5000)
}

/// Not a test by itself: a process of workers, started by the test below.
#[test]
fn part() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let fields: Vec<&str> = role.split(';').collect();
    let [pool, ledger] = fields[..] else {
        panic!("{role}");
    };
    let ledger = Ledger::open(Path::new(ledger)).expect("ledger");
    let volume = Volume::attach(
        Path::new(pool),
        AttachMode::CreateOrJoin,
        &AttachOptions::default(),
    )
    .expect("attach");
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            let id = ledger.add_worker().expect("a worker's number");
            let (volume, ledger) = (&volume, &ledger);
            scope.spawn(move || {
                worker::work(&Engine(volume), ledger, id, 0..steps());
                volume.thread_exit();
            });
        }
    });
}

fn start(pool: &Path, ledger: &Path) -> Child {
    Command::new(std::env::current_exe().expect("path of the test"))
        .args(["--exact", "part", "--nocapture"])
        .env(ROLE, format!("{};{}", pool.display(), ledger.display()))
        .spawn()
        .expect("start a process")
}

/// All of it on a volume of so many pools.
fn run(pools: usize) {
    let scratch = Scratch::new(pools, 64 << 20);
    let path: PathBuf = scratch.directory.path().join("ledger");
    let ledger = Ledger::open(&path).expect("ledger");
    let volume = scratch.attach();
    let before = volume.space(None);
    let commons = Commons::make(&volume).expect("what everybody uses");
    let processes: Vec<Child> = (0..PROCESSES)
        .map(|_| start(&scratch.pools[0], &path))
        .collect();
    for mut process in processes {
        assert_eq!(wait_within(&mut process, LONGEST_RUN), 0, "a worker failed");
    }
    assert_eq!(ledger.faults(), 0, "a step went wrong: see above");
    let (longest_ns, worker, step) = ledger.longest();
    assert!(
        longest_ns < LONGEST_NS,
        "worker {worker} waited {longest_ns} ns, last in step {step}"
    );
    let ended: Vec<Ended> = (0..PROCESSES * THREADS)
        .map(|id| Ended::of(&ledger, id))
        .collect();
    for worker in &ended {
        assert_eq!(worker.steps, steps());
        verify::verify_home(&volume, *worker).unwrap();
    }
    verify::verify_names(&volume, &commons, &ended).unwrap();
    verify::verify_log(&volume, &commons, &ended).unwrap();
    verify::verify_commons(&volume, &commons).unwrap();
    verify::empty(&volume, InodeNumber::ROOT).unwrap();
    let after = volume.space(None);
    assert_eq!(after.free_inodes, before.free_inodes);
    // Blocks of inode records and the root's log stay.
    assert!(
        before.free_blocks - after.free_blocks < 64,
        "{before:?} {after:?}"
    );
    let (leaked, report) = verify::leaked(volume, &scratch.pools[0]).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!(leaked, Leaked::default());
    eprintln!("longest step {longest_ns} ns");
}

#[test]
fn processes_on_the_same_files_lose_and_mix_nothing() {
    run(1);
}

#[test]
fn processes_on_files_of_two_pools_lose_and_mix_nothing() {
    run(2);
}
