//! Delegation of long accesses, ordered by a steward on the emulated machine `optane-2s`.

mod common;

use std::num::NonZeroU8;
use std::sync::Arc;

use common::{actions, new_volume, start, wait_for, while_working};
use egeria_actuators::AccessDelegation;
use egeria_engine::*;
use egeria_policy::ActionOutcome;
use egeria_policy::planner::System;

const BYTES: usize = 1 << 20;

/// Runs `body` while a thread reads a striped file.
fn with_a_reader(volume: &Volume, body: impl FnOnce()) {
    let new = NewInode::of_root(libc::S_IFREG | 0o644);
    let ino = volume.create(InodeNumber::ROOT, b"file", &new).unwrap().ino;
    let layout = b"user.egeria.layout";
    volume
        .set_xattr(ino, layout, b"striped", XattrMode::Any)
        .unwrap();
    let file = volume.open(ino, None).unwrap();
    volume.write(file, 0, &vec![1; BYTES]).unwrap();
    let read = |_| _ = volume.read(file, 0, &mut vec![0; BYTES]).unwrap();
    while_working(1, read, body);
}

#[test]
fn striped_reads_are_delegated_while_the_steward_works() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let volume = new_volume(folder.path(), None);
    let steward = start(System::Odin, &volume, folder.path());
    with_a_reader(&volume, || {
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
    let volume = new_volume(folder.path(), None);
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
    let volume = new_volume(folder.path(), None);
    volume.set_delegation(None, true).unwrap();
    let steward = start(System::Odin, &volume, folder.path());
    with_a_reader(&volume, || {
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
