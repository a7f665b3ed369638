//! What tests of whole measurements need.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock};
use tempfile::TempDir;

/// The preload library of this build, built when it is not there yet.
pub fn preload_library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let beside = Path::new(env!("CARGO_BIN_EXE_egeria-datapath-worker"))
            .parent()
            .unwrap();
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        build.args([
            "build",
            "--quiet",
            "--package",
            "egeria-preload",
            "--target-dir",
        ]);
        build.arg(beside.parent().unwrap());
        build.args([
            "--manifest-path",
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml"),
        ]);
        if beside.ends_with("release") {
            build.arg("--release");
        }
        assert!(
            build.status().unwrap().success(),
            "egeria-preload does not build"
        );
        beside.join("libegeria_preload.so")
    };
    LIBRARY.get_or_init(build).clone()
}

/// These tests take memory and processors: one at a time. `None`, said loudly, where nothing can be mounted.
pub fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    let guard = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")
    {
        Ok(_) => Some(guard),
        Err(_) => {
            eprintln!("SKIPPED: /dev/fuse cannot be opened, so nothing can be mounted here");
            None
        }
    }
}

/// A tmpfs directory of this test's own, so that what is left behind shows.
pub fn memory() -> TempDir {
    tempfile::Builder::new()
        .prefix("egeria-bench-test-")
        .tempdir_in("/dev/shm")
        .unwrap()
}

pub fn nothing_is_left(memory: &TempDir) {
    let left: Vec<_> = std::fs::read_dir(memory.path())
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    // Mount points carry the process that made them; other processes may measure beside.
    let name = format!("/egeria-bench-{}-", std::process::id());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let ours: Vec<&str> = mounts.lines().filter(|line| line.contains(&name)).collect();
    assert!(ours.is_empty(), "still mounted: {ours:?}");
}
