//! Delegation of long accesses, ordered by a steward on the emulated machine `optane-2s`.

use std::num::NonZeroU8;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use egeria_actuators::AccessDelegation;
use egeria_engine::*;
use egeria_machine::Machine;
use egeria_policy::ActionOutcome;
use egeria_policy::planner::System;
use egeria_steward::{LogReader, Record, Scope, Steward, StewardOptions, Target};

const PATIENCE: Duration = Duration::from_secs(60);
const BYTES: usize = 1 << 20;

fn new_volume(folder: &Path) -> Arc<Volume> {
    let pool = |node: u16| PoolRequest {
        node,
        path: folder.join(format!("pool{node}")),
        bytes: Some(64 << 20),
    };
    create_volume(&[pool(0), pool(1)], &CreateOptions::default()).unwrap();
    let options = AttachOptions {
        machine: Some(Machine::profile("optane-2s").unwrap()),
        ..AttachOptions::default()
    };
    Volume::attach(&folder.join("pool0"), AttachMode::CreateOrJoin, &options).unwrap()
}

fn start(volume: &Arc<Volume>, folder: &Path) -> Steward {
    let options = StewardOptions {
        policy: System::Odin.to_string(),
        settings: System::Odin.settings(),
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

/// Beside a thread that reads a striped file.
fn beside_a_reader(volume: &Volume, body: impl FnOnce()) {
    let new = NewInode {
        mode: libc::S_IFREG | 0o644,
        uid: 0,
        gid: 0,
        rdev: 0,
    };
    let ino = volume.create(InodeNumber::ROOT, b"file", &new).unwrap().ino;
    let layout = b"user.egeria.layout";
    volume
        .set_xattr(ino, layout, b"striped", XattrMode::Any)
        .unwrap();
    let file = volume.open(ino, None).unwrap();
    volume.write(file, 0, &vec![1; BYTES]).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut data = vec![0; BYTES];
            while !is_over.load(Ordering::Relaxed) {
                volume.read(file, 0, &mut data).unwrap();
            }
        });
        // The reader ends, whatever becomes of it.
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            std::panic::resume_unwind(panic);
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
fn striped_reads_are_delegated_while_the_steward_works() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let volume = new_volume(folder.path());
    let steward = start(&volume, folder.path());
    beside_a_reader(&volume, || {
        wait_for("delegation", || volume.delegation().0.is_some());
        wait_for("a delegated read", || volume.counters().delegated_bytes > 0);
        steward.stop();
        assert_eq!(volume.delegation(), (None, false));
    });
    let actions = actions(folder.path());
    let (sentence, outcome) = &actions[0];
    assert_eq!(*outcome, ActionOutcome::Done);
    assert!(
        sentence.contains("32.0 KiB") || sentence.contains("32768"),
        "{sentence}"
    );
}

#[test]
fn what_a_killed_steward_delegated_the_next_one_lifts() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let volume = new_volume(folder.path());
    let rule = DelegationRule {
        delegates: NonZeroU8::MIN,
        min_read_bytes: 4096,
        min_write_bytes: 4096,
        always: false,
    };
    let killed = AccessDelegation::begin(Arc::clone(&volume));
    volume.set_delegation(Some(rule), false).unwrap();
    std::mem::forget(killed);
    assert_eq!(volume.delegation(), (Some(rule), false));
    drop(AccessDelegation::begin(Arc::clone(&volume)));
    assert_eq!(volume.delegation(), (None, false));
}

#[test]
fn delegation_set_by_hand_stays_and_the_log_says_so() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let volume = new_volume(folder.path());
    volume.set_delegation(None, true).unwrap();
    let steward = start(&volume, folder.path());
    beside_a_reader(&volume, || {
        wait_for("a refusal", || !actions(folder.path()).is_empty());
    });
    steward.stop();
    assert_eq!(volume.delegation(), (None, true));
    let (_, outcome) = &actions(folder.path())[0];
    let ActionOutcome::Refused { reason } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(reason, "delegation was set by hand");
}
