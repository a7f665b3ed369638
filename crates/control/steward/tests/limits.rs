//! Limits of how many threads access persistent memory at once, set by a steward on the emulated machine `optane-2s`.

mod common;

use std::num::NonZeroU32;
use std::sync::Arc;

use common::{actions, emulated, start, wait_for, while_working};
use egeria_actuators::AdmissionLimits;
use egeria_engine::*;
use egeria_facts::FactSource;
use egeria_media::PoolIndex;
use egeria_policy::ActionOutcome;
use egeria_policy::planner::System;
use egeria_session::SessionSource;
use egeria_steward::Scope;

const WRITERS: usize = 6;

/// All data on node 0.
fn new_volume(folder: &std::path::Path) -> Arc<Volume> {
    common::new_volume(folder, Some(AllocationPolicy::Pool(0)))
}

/// Runs `body` while threads write on node 0.
fn with_writers(volume: &Volume, body: impl FnOnce()) {
    let new = NewInode::of_root(libc::S_IFREG | 0o644);
    let make = |writer| {
        let name = format!("file{writer}");
        let made = volume.create(InodeNumber::ROOT, name.as_bytes(), &new);
        volume.open(made.unwrap().ino, None).unwrap()
    };
    let files: Vec<_> = (0..WRITERS).map(make).collect();
    let write = |writer: usize| _ = volume.write(files[writer], 0, &[1; 4096]).unwrap();
    while_working(WRITERS, write, body);
}

fn limit_of_node_0(volume: &Volume) -> Option<u32> {
    volume.admission(false)[0].limit.map(NonZeroU32::get)
}

#[test]
fn contended_writers_are_limited_until_the_steward_stops() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let volume = new_volume(folder.path());
    let steward = start(System::Pats, &volume, folder.path());
    assert!(volume.measures_admission());
    with_writers(&volume, || {
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
    let machine = emulated();
    let killed = AdmissionLimits::begin(Arc::clone(&volume), &machine).unwrap();
    let limit = NonZeroU32::new(1);
    volume
        .limit_admission(PoolIndex(0), limit, LimitedBy::Planner)
        .unwrap();
    std::mem::forget(killed);
    assert_eq!(limit_of_node_0(&volume), Some(1));
    let steward = start(System::Pats, &volume, folder.path());
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
    let steward = start(System::Pats, &volume, folder.path());
    with_writers(&volume, || {
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

#[test]
fn room_in_pools_is_a_fact_of_each_node() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let volume = new_volume(folder.path());
    let mut watch = SessionSource::begin(volume.clone(), emulated(), Scope::All);
    assert_eq!(watch.next_facts().unwrap().unwrap().media, []);
    watch.watch_files();
    let media = watch.next_facts().unwrap().unwrap().media;
    assert_eq!(media.len(), 2);
    for (pool, facts) in media.iter().enumerate() {
        let available = volume.space(Some(pool as u8)).available_blocks;
        assert_eq!(facts.free_bytes, Some(available * 4096));
        assert!(available > 0);
    }
}
