//! `egeria mount --limit`.

mod common;

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;

use common::{Sandbox, can_mount, run};
use egeria_fs::{AttachMode, AttachOptions, Volume};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_limit_holds_for_programs_on_the_mount_and_under_the_library() {
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
