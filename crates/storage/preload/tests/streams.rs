//! Streams of libc (`FILE`) over files of a volume.

use crate::common::{Mounted, assert_ended_well, finish, keeps, program};
use std::process::Output;

#[test]
fn streams_cost_no_requests() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let rule = "streams_cost_no_requests";
    let mut command = mounted.command(program("streams"));
    assert_ended_well(&finish(command.arg(rule)), rule);
    mounted.assert_served(&before, 500 * 20, rule);
    let requests = mounted.volume.counters().mount_requests - before.mount_requests;
    assert!(requests < 100, "{requests} requests");
}

#[test]
fn what_is_under_a_stream_is_a_file_like_any_other() {
    keeps(
        "streams",
        "what_is_under_a_stream_is_a_file_like_any_other",
        20,
    );
}

#[test]
fn streams_begin_again() {
    keeps("streams", "streams_begin_again", 5);
}

#[test]
fn forks_beside_locks() {
    keeps("streams", "forks_beside_locks", 300 * 5);
}

#[test]
fn streams_that_were_there_before_write() {
    keeps("streams", "streams_that_were_there_before_write", 5);
}

#[test]
fn all_is_written_at_exit() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let rule = "all_is_written_at_exit";
    let mut command = mounted.command(program("streams"));
    assert_ended_well(&finish(command.arg(rule)), rule);
    let written = std::fs::read(mounted.path("exit")).expect("a file");
    assert_eq!(written, b"at exit");
}

#[test]
fn streams_answer_as_libc() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let rule = "streams_answer_as_libc";
    let lines = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let with = finish(mounted.command(program("streams")).arg(rule));
    assert_ended_well(&with, rule);
    for file in std::fs::read_dir(mounted.point()).expect("a directory") {
        let _ = std::fs::remove_file(file.expect("a file").path());
    }
    let without = finish(mounted.bare_command(program("streams")).arg(rule));
    assert_ended_well(&without, rule);
    let (with, without) = (lines(&with), lines(&without));
    let mut pairs = with.lines().zip(without.lines());
    assert_eq!(pairs.find(|(one, other)| one != other), None);
    assert!(with.lines().count() > 10_000 && with.len() == without.len());
}
