//! Invariant 3, on all three ways to the files at once: a process killed at any instruction blocks nobody
//! and loses no acknowledged operation; one that is stopped blocks nobody who does not change the same inode.
//!
//! `EGERIA_TEST_CASES` sets how many processes are killed.

use egeria_harness::testing;
use egeria_torture::kill::{self, KillOptions};

#[test]
fn killed_workers_and_mounts_lose_nothing_that_returned() {
    let Some(_turn) = testing::turn() else { return };
    let memory = testing::memory();
    let kills = std::env::var("EGERIA_TEST_CASES");
    let kills = kills.ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let report = kill::run(&KillOptions {
        kills,
        stops: 0,
        worker: Some(env!("CARGO_BIN_EXE_egeria-kill-worker").into()),
        memory_directory: memory.path().into(),
        ..KillOptions::new(testing::preload_library())
    })
    .unwrap();
    eprintln!("{report:#?}");
    assert_eq!(report.kills, kills);
    assert!(report.mount_kills > 0, "no mount was killed");
    assert!(report.snapshots > 0, "no snapshot was read");
    assert_eq!(report.faults, [""; 0]);
    assert_eq!((report.lost, report.findings), (0, 0));
    assert_eq!((report.leaked_blocks, report.leaked_inodes), (0, 0));
    // Each of the three ways was used.
    assert!(report.direct_calls > 0 && report.mount_requests > 0);
    assert!(report.operations > report.direct_calls.min(10_000));
    testing::nothing_is_left(&memory);
}

/// How long workers stay stopped here: so long that no busy machine is taken for a wait until their end.
const HOLD_MS: u64 = 3000;

#[test]
fn nobody_waits_until_a_stopped_worker_goes_on() {
    let Some(_turn) = testing::turn() else { return };
    let memory = testing::memory();
    let report = kill::run(&KillOptions {
        kills: 0,
        stops: 4,
        hold_ms: HOLD_MS..=HOLD_MS,
        worker: Some(env!("CARGO_BIN_EXE_egeria-kill-worker").into()),
        memory_directory: memory.path().into(),
        ..KillOptions::new(testing::preload_library())
    })
    .unwrap();
    let stopped = report.stopped.as_ref().unwrap();
    eprintln!("{}", report.table());
    assert_eq!((stopped.stops, stopped.failed), (4, 0));
    assert!(stopped.longest_wait_ms < 2500.0, "{stopped:#?}");
    assert!(stopped.by_observer.iter().all(|row| row.calls > 0));
    assert_eq!((report.lost, report.findings), (0, 0));
    assert_eq!((report.leaked_blocks, report.leaked_inodes), (0, 0));
    testing::nothing_is_left(&memory);
}
