//! Limits of how many threads access persistent memory at once, set by a steward on the emulated machine `optane-2s`.

use std::num::NonZeroU32;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use egeria_actuators::AdmissionLimits;
use egeria_engine::*;
use egeria_machine::Machine;
use egeria_media::PoolIndex;
use egeria_policy::ActionOutcome;
use egeria_policy::planner::System;
use egeria_steward::{LogReader, Record, Scope, Steward, StewardOptions, Target};

const WRITERS: usize = 6;
const PATIENCE: Duration = Duration::from_secs(60);

fn new_volume(folder: &Path) -> Arc<Volume> {
    let pool = |node: u16| PoolRequest {
        node,
        path: folder.join(format!("pool{node}")),
        bytes: Some(64 << 20),
    };
    create_volume(&[pool(0), pool(1)], &CreateOptions::default()).unwrap();
    let options = AttachOptions {
        machine: Some(Machine::profile("optane-2s").unwrap()),
        allocation: Some(AllocationPolicy::Pool(0)),
        ..AttachOptions::default()
    };
    Volume::attach(&folder.join("pool0"), AttachMode::CreateOrJoin, &options).unwrap()
}

fn start(volume: &Arc<Volume>, folder: &Path) -> Steward {
    let options = StewardOptions {
        policy: System::Pats.to_string(),
        settings: System::Pats.settings(),
        window_ns: 5_000_000,
        machine: Machine::profile("optane-2s").unwrap(),
        scope: Scope::All,
        memory_source: None,
        measure_idle_pools: false,
        record: None,
        decision_log: Some(folder.join("decisions.jsonl")),
    };
    Steward::start(Target::Volume(Arc::clone(volume)), options).unwrap()
}

/// Beside writers on node 0.
fn beside_writers(volume: &Volume, body: impl FnOnce()) {
    let is_over = AtomicBool::new(false);
    let new = NewInode {
        mode: libc::S_IFREG | 0o644,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let is_over = &is_over;
            scope.spawn(move || {
                let name = format!("file{writer}");
                let made = volume.create(InodeNumber::ROOT, name.as_bytes(), &new);
                let file = volume.open(made.unwrap().ino, None).unwrap();
                while !is_over.load(Ordering::Relaxed) {
                    volume.write(file, 0, &[1; 4096]).unwrap();
                }
            });
        }
        // The writers end, whatever becomes of it.
        let outcome = catch_unwind(AssertUnwindSafe(body));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn limit_of_node_0(volume: &Volume) -> Option<u32> {
    volume.admission(false)[0].limit.map(NonZeroU32::get)
}

/// What was tried: the sentence, and what came of it.
fn actions(folder: &Path) -> Vec<(String, ActionOutcome)> {
    let mut reader = LogReader::open(&folder.join("decisions.jsonl")).unwrap();
    let records = std::iter::from_fn(|| reader.next_record().unwrap());
    let windows = records.filter_map(|record| match record {
        Record::Window(window) => Some(window.actions),
        _ => None,
    });
    windows
        .flatten()
        .map(|line| (line.sentence, line.record.outcome))
        .collect()
}

#[test]
fn contended_writers_are_limited_until_the_steward_stops() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let volume = new_volume(folder.path());
    let steward = start(&volume, folder.path());
    assert!(volume.measures_admission());
    beside_writers(&volume, || {
        wait_for("a limit", || limit_of_node_0(&volume).is_some());
        // Eq. 1 for writes of 4 KiB and one DIMM.
        assert_eq!(limit_of_node_0(&volume), Some(2));
        wait_for("a wait", || volume.counters().admission_waits > 0);
        steward.stop();
        assert_eq!(limit_of_node_0(&volume), None);
    });
    assert!(!volume.measures_admission());
    let actions = actions(folder.path());
    let (sentence, outcome) = &actions[0];
    assert_eq!(*outcome, ActionOutcome::Done);
    assert!(sentence.contains("node 0: 2 threads at once"), "{sentence}");
}

#[test]
fn limits_of_a_killed_steward_are_lifted_by_the_next() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let volume = new_volume(folder.path());
    let machine = Machine::profile("optane-2s").unwrap();
    let killed = AdmissionLimits::begin(Arc::clone(&volume), &machine).unwrap();
    let limit = NonZeroU32::new(1);
    volume
        .limit_admission(PoolIndex(0), limit, LimitedBy::Planner)
        .unwrap();
    std::mem::forget(killed);
    assert_eq!(limit_of_node_0(&volume), Some(1));
    let steward = start(&volume, folder.path());
    assert_eq!(limit_of_node_0(&volume), None);
    steward.stop();
}

#[test]
fn a_limit_set_by_hand_stays_and_the_log_says_so() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let volume = new_volume(folder.path());
    let limit = NonZeroU32::new(3);
    volume
        .limit_admission(PoolIndex(0), limit, LimitedBy::Hand)
        .unwrap();
    let steward = start(&volume, folder.path());
    beside_writers(&volume, || {
        wait_for("a refusal", || !actions(folder.path()).is_empty());
    });
    steward.stop();
    assert_eq!(limit_of_node_0(&volume), Some(3));
    let (_, outcome) = &actions(folder.path())[0];
    let ActionOutcome::Refused { reason } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(reason, "the limit of pool 0 was set by hand");
}
