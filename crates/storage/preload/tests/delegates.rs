//! Programs whose long accesses are made by delegates in their own process.

use crate::common::Mounted;
use egeria_engine::{DelegationRule, InodeNumber, XattrMode};
use std::num::NonZeroU8;

/// One rule on a fresh mount with striped files, whose accesses are all delegated; at least so many bytes must have been.
fn keeps(rule: &str, delegated_bytes: u64) {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let layout = b"user.egeria.layout";
    let volume = &mounted.volume;
    volume
        .set_xattr(InodeNumber::ROOT, layout, b"striped:4096", XattrMode::Any)
        .unwrap();
    let delegation = DelegationRule {
        delegates: NonZeroU8::new(2).unwrap(),
        min_read_bytes: 4097,
        min_write_bytes: 4097,
        always: true,
    };
    volume.set_delegation(Some(delegation), true).unwrap();
    mounted.keeps("delegates", rule, 0);
    let delegated = volume.counters().delegated_bytes;
    assert!(delegated >= delegated_bytes, "{rule}: {delegated} bytes");
}

const LONG: u64 = 512 << 10;

#[test]
fn forks_among_busy_threads() {
    keeps("forks_among_busy_threads", 60 * LONG);
}

#[test]
fn execs() {
    keeps("execs", 4 * LONG);
}

#[test]
fn makes_a_user_namespace() {
    keeps("makes_a_user_namespace", 2 * LONG);
}

#[test]
fn gives_up_its_rights() {
    keeps("gives_up_its_rights", 2 * LONG);
}

#[test]
fn may_make_no_threads() {
    keeps("may_make_no_threads", 0);
}

#[test]
fn has_no_memory_for_threads() {
    keeps("has_no_memory_for_threads", 0);
}

#[test]
fn handlers_write() {
    keeps("handlers_write", LONG);
}

#[test]
fn signals_meet_the_program_s_threads() {
    keeps("signals_meet_the_program_s_threads", 100 * LONG);
}

#[test]
fn small_stacks() {
    keeps("small_stacks", LONG);
}

#[test]
fn bad_buffers() {
    keeps("bad_buffers", 3 * LONG);
}
