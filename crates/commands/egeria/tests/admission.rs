//! `--limit` of `egeria mount` and `egeria run`, and `--delegates` of the latter.

use crate::common;

use std::fs;
use std::num::NonZeroU32;

use common::{Sandbox, can_mount, run, text};
use egeria_engine::{AttachMode, AttachOptions, Volume};

#[test]
fn a_limit_holds_on_the_mount_and_under_the_library() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    run(["mount", "--limit", "2", text(&pool), text(&directory)]).ok();
    let volume = Volume::attach(&pool, AttachMode::Join, &AttachOptions::default()).unwrap();
    assert_eq!(volume.admission(false)[0].limit, NonZeroU32::new(2));
    let asked = || volume.counters().asked[0];
    fs::write(directory.join("file"), vec![1; 100_000]).unwrap();
    let by_mount = asked();
    assert!(
        by_mount.writes > 0 && by_mount.bytes >= 100_000,
        "{by_mount:?}"
    );
    let (from, to) = (directory.join("file"), directory.join("copy"));
    run([
        "run",
        "--volume",
        text(&pool),
        "--",
        "cp",
        text(&from),
        text(&to),
    ])
    .ok();
    assert!(asked().bytes >= by_mount.bytes + 200_000, "{:?}", asked());
    assert_eq!(fs::read(&to).unwrap(), vec![1; 100_000]);
    run(["umount", text(&directory)]).ok();
}

#[test]
fn a_limit_that_admits_nobody_is_refused() {
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    for limit in ["0", "-1", "many"] {
        let limit = format!("--limit={limit}");
        run(["mount", &limit, text(&pool), text(&directory)]).refused(2, &["write 1 or more"]);
    }
}

/// What `egeria df` says of limits and delegation inside a run with these options.
fn shown_inside(options: &[&str]) -> serde_json::Value {
    let mut command = vec!["run"];
    command.extend(options);
    let df = format!(
        "exec {} df --json $EGERIA_MOUNT",
        env!("CARGO_BIN_EXE_egeria")
    );
    command.extend(["--", "sh", "-c", &df]);
    run(command).ok().json()
}

#[test]
fn a_run_has_limits_and_delegates_until_it_ends() {
    if !can_mount() {
        return;
    }
    let shown = shown_inside(&["--scratch", "64M", "--limit", "3", "--delegates", "2"]);
    let shown = shown.to_string();
    assert!(
        shown.contains("\"limit_threads\":3") && shown.contains("\"delegates_per_node\":2"),
        "{shown}"
    );
    // On a volume that others use, what they had is back afterwards.
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    run(["mount", "--limit", "2", text(&pool), text(&directory)]).ok();
    let volume = Volume::attach(&pool, AttachMode::Join, &AttachOptions::default()).unwrap();
    let shared = ["--volume", text(&pool), "--limit", "5", "--delegates", "1"];
    let shown = shown_inside(&shared).to_string();
    assert!(
        shown.contains("\"limit_threads\":5") && shown.contains("\"delegates_per_node\":1"),
        "{shown}"
    );
    let limits = volume.admission(false).into_iter().map(|pool| pool.limit);
    assert!(limits.eq(volume.pools().iter().map(|_| NonZeroU32::new(2))));
    assert_eq!(volume.delegation(), (None, false));
    drop(volume);
    run(["umount", text(&directory)]).ok();
    run(["run", "--limit", "0", "--", "true"]).refused(2, &["write 1 or more"]);
    run(["run", "--no-volume", "--limit", "2", "--", "true"]).refused(2, &["--limit"]);
}
