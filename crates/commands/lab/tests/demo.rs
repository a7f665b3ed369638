//! The demonstration.

use crate::common;
use egeria_harness::testing::skip;

use std::fs;
use std::path::PathBuf;

use common::lab;
use egeria_harness::testing::{
    Background, can_mount, eventually, kill, memory, preload_library, wait,
};
use rustix::process::Signal;

/// Mount points of Egeria, innermost last.
fn mounts() -> Vec<PathBuf> {
    let mounts = egeria_mount::mounts().unwrap().into_iter();
    mounts.map(|mount| mount.directory).collect()
}

#[test]
fn a_signal_ends_the_demonstration_and_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let out = memory();
    let mut command = lab(["demo", "--quick"]);
    command.arg("--out").arg(out.path().join("report"));
    command.env("EGERIA_PRELOAD_LIB", preload_library());
    let mut running = Background::start(&mut command);
    let ours = format!("/egeria-run-{}-", running.id());
    let is_ours = |path: &PathBuf| path.to_string_lossy().contains(&ours);
    let mut status = None;
    eventually("it mounts, or ends", || {
        status = running.0.try_wait().unwrap();
        status.is_some() || mounts().iter().any(is_ours)
    });
    if status.is_some() {
        skip("the demonstration cannot run here; `make setup` installs what it needs");
        return;
    }
    kill(running.id(), Signal::TERM);
    assert_eq!(wait(&mut running.0), 143);
    assert!(!mounts().iter().any(is_ours), "{:?}", mounts());
    let names = |directory: &str| {
        fs::read_dir(directory)
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
    };
    let left: Vec<PathBuf> = names("/dev/shm")
        .chain(names("/tmp"))
        .filter(is_ours)
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
