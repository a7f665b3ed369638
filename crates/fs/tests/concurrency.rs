//! Sessions that come and go beside each other.

mod common;

use common::Scratch;
use egeria_fs::*;
use std::path::Path;
use std::process::{Command, Output};

const ROLE: &str = "EGERIA_TEST_CONCURRENCY";

/// Not a test by itself: a process that joins a session and makes a file.
#[test]
fn part() {
    let Ok(pool) = std::env::var(ROLE) else {
        return;
    };
    let options = AttachOptions::default();
    let volume = Volume::attach(Path::new(&pool), AttachMode::Join, &options)
        .unwrap_or_else(|error| panic!("{error}"));
    volume
        .create(InodeNumber::ROOT, b"joined", &common::FILE)
        .expect("create");
}

fn join(pool: &Path) -> Output {
    Command::new(std::env::current_exe().expect("path of the test"))
        .args(["--exact", "part", "--nocapture"])
        .env(ROLE, pool)
        .output()
        .expect("start a process")
}

#[test]
fn a_check_of_a_copy_leaves_the_session_of_the_original() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let copy = scratch.directory.path().join("copy");
    std::fs::copy(&scratch.pools[0], &copy).expect("copy");
    check_volume(&copy, false, &mut |_, _| {}).expect("check");
    let joined = join(&scratch.pools[0]);
    assert!(joined.status.success(), "{joined:?}");
    assert!(volume.lookup(InodeNumber::ROOT, b"joined").is_ok());
}

#[test]
fn who_only_joins_finds_no_session_after_the_last_one_left() {
    let scratch = Scratch::new(1, 16 << 20);
    drop(scratch.attach());
    assert!(!join(&scratch.pools[0]).status.success());
    let volume = scratch.attach();
    assert_eq!(
        volume.lookup(InodeNumber::ROOT, b"joined"),
        Err(Errno(libc::ENOENT))
    );
}

#[test]
fn threads_that_come_and_go_give_everything_back() {
    let scratch = Scratch::new(2, 32 << 20);
    let volume = scratch.attach();
    let free = |volume: &Volume| {
        let space = volume.space(None);
        (space.free_blocks, space.free_inodes)
    };
    let round = |turn: u32| {
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let volume = &volume;
                scope.spawn(move || {
                    let name = format!("{turn}-{thread}").into_bytes();
                    let made = volume
                        .create_open(InodeNumber::ROOT, &name, &common::FILE)
                        .expect("create");
                    let file = volume.open(made.ino, None).expect("open");
                    volume.append(file, &vec![1; 100_000]).expect("append");
                    volume.unlink(InodeNumber::ROOT, &name).expect("unlink");
                    volume.close(made.ino);
                    volume.close(made.ino);
                });
            }
        });
    };
    round(0);
    let before = free(&volume);
    for turn in 1..100 {
        round(turn);
    }
    let after = free(&volume);
    assert_eq!(after.1, before.1);
    // The directory's own log breathes.
    assert!(before.0.abs_diff(after.0) <= 16, "{before:?} {after:?}");
    drop(volume);
    scratch.assert_clean();
}
