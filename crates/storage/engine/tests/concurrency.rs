//! Sessions that come and go beside each other.

use crate::common::{FILE, Scratch, segments};
use egeria_engine::*;
use egeria_harness::testing::eventually;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
        .create(InodeNumber::ROOT, b"joined", &FILE)
        .expect("create");
}

fn this_program(part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("path of the test"));
    command.args(["--exact", part, "--nocapture"]);
    command
}

fn join(pool: &Path) -> Output {
    this_program("concurrency::part")
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
    assert_joins(&scratch.pools[0], &volume);
}

/// Another process joins the session of this volume.
#[track_caller]
fn assert_joins(pool: &Path, volume: &Volume) {
    let joined = join(pool);
    assert!(joined.status.success(), "{joined:?}");
    let made = volume.lookup(InodeNumber::ROOT, b"joined").map(drop);
    assert_eq!(made, Ok(()), "another session");
    volume.unlink(InodeNumber::ROOT, b"joined").expect("unlink");
}

const EXEC_ROLE: &str = "EGERIA_TEST_EXEC";

/// Not a test by itself: a process that opens a file, becomes another program, attaches again and stays.
#[test]
fn part_that_becomes_another() {
    let Ok(role) = std::env::var(EXEC_ROLE) else {
        return;
    };
    let (pool, inode) = role.split_once('#').expect("a pool and an inode");
    let options = AttachOptions::default();
    let volume = Volume::attach(Path::new(pool), AttachMode::Join, &options).expect("attach");
    if let Ok(ino) = inode.parse() {
        volume.open(InodeNumber(ino), None).expect("open");
        let error = this_program("concurrency::part_that_becomes_another")
            .env(EXEC_ROLE, format!("{pool}#"))
            .exec();
        panic!("{error}");
    }
    volume.open(InodeNumber::ROOT, None).expect("a slot");
    println!("\nattached");
    let _ = std::io::stdin().read_line(&mut String::new());
}

#[test]
fn what_a_process_held_before_it_became_another_program_goes() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let root = InodeNumber::ROOT;
    let ino = volume.create(root, b"held", &FILE).expect("create");
    let ino = ino.ino;
    let mut process = this_program("concurrency::part_that_becomes_another")
        .env(
            EXEC_ROLE,
            format!("{}#{}", scratch.pools[0].display(), ino.0),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start a process");
    // Kept open, or what it says later has nowhere to go.
    let mut said = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut lines = said.by_ref().lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "attached"));
    volume.unlink(root, b"held").expect("unlink");
    volume.reap();
    assert_eq!(volume.attributes(ino), Err(Errno(libc::ESTALE)));
    drop(process.stdin.take());
    assert_eq!(egeria_harness::testing::wait(&mut process), 0);
}

#[test]
fn two_attachments_of_a_process_see_each_other_alive() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let root = InodeNumber::ROOT;
    let ino = volume.create(root, b"held", &FILE).expect("create");
    let options = AttachOptions::default();
    let read_only = AttachMode::ReadOnly;
    let other = Volume::attach(&scratch.pools[0], read_only, &options).expect("attach");
    other.open(ino.ino, None).expect("open");
    volume.unlink(root, b"held").expect("unlink");
    volume.reap();
    assert!(other.attributes(ino.ino).is_ok(), "it is open there");
    other.close(ino.ino);
    assert_eq!(other.attributes(ino.ino), Err(Errno(libc::ESTALE)));
}

/// What a process that could not join said.
fn refused(pool: &Path) -> String {
    let joined = join(pool);
    assert!(!joined.status.success(), "{joined:?}");
    String::from_utf8_lossy(&joined.stderr).into_owned()
}

#[test]
fn who_only_joins_finds_no_session_after_the_last_one_left() {
    let scratch = Scratch::new(1, 16 << 20);
    let says_why = |said: &str| {
        assert!(said.contains("nobody has the volume"), "{said}");
        assert!(said.contains("egeria mount"), "{said}");
    };
    says_why(&refused(&scratch.pools[0]));
    drop(scratch.attach());
    says_why(&refused(&scratch.pools[0]));
    let volume = scratch.attach();
    assert_eq!(
        volume.lookup(InodeNumber::ROOT, b"joined"),
        Err(Errno(libc::ENOENT))
    );
}

/// Somewhere else /dev/shm holds the session: here its name is missing, and somebody has the pools.
#[test]
fn who_sees_another_shm_is_told_so() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let hidden = scratch.directory.path().join("hidden");
    let segment = segments(volume.uuid()).pop().expect("a segment");
    std::fs::rename(&segment, &hidden).expect("hide it");
    let said = refused(&scratch.pools[0]);
    assert!(said.contains("/dev/shm is another one"), "{said}");
    std::fs::rename(&hidden, &segment).expect("bring it back");
    assert_joins(&scratch.pools[0], &volume);
}

fn attach(pool: &Path) -> Result<std::sync::Arc<Volume>, VolumeError> {
    Volume::attach(pool, AttachMode::CreateOrJoin, &AttachOptions::default())
}

#[test]
fn a_copy_of_an_attached_volume_is_refused() {
    let scratch = Scratch::new(1, 16 << 20);
    let before = scratch.directory.path().join("before");
    std::fs::copy(&scratch.pools[0], &before).expect("copy");
    let volume = scratch.attach();
    let during = scratch.directory.path().join("during");
    std::fs::copy(&scratch.pools[0], &during).expect("copy");
    for copy in [&before, &during] {
        let error = attach(copy).map(drop).expect_err("two pools with one UUID");
        assert_eq!(error.errno, libc::EBUSY);
        let uuid = volume.uuid().to_string();
        for word in [copy.to_str().unwrap(), &uuid, "copy", "unmount"] {
            assert!(error.message.contains(word), "{word}: {error}");
        }
    }
    assert_joins(&scratch.pools[0], &volume);
    volume
        .create(InodeNumber::ROOT, b"original", &FILE)
        .expect("create");
    drop(volume);
    for copy in [&before, &during] {
        let volume = attach(copy).expect("the original is detached");
        let outcome = volume.lookup(InodeNumber::ROOT, b"original").map(drop);
        assert_eq!(outcome, Err(Errno(libc::ENOENT)), "another volume");
    }
}

#[test]
fn detach_ignores_another_file_at_the_pool_path() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let options = AttachOptions::default();
    let other = Volume::attach(&scratch.pools[0], AttachMode::ReadOnly, &options).expect("attach");
    let moved = scratch.directory.path().join("moved");
    std::fs::rename(&scratch.pools[0], &moved).expect("move");
    std::fs::copy(&moved, &scratch.pools[0]).expect("copy");
    drop(other);
    assert_joins(&moved, &volume);
    let other = Volume::attach(&moved, AttachMode::ReadOnly, &options).expect("attach");
    std::fs::rename(&moved, &scratch.pools[0]).expect("move back");
    drop(other);
    assert_joins(&scratch.pools[0], &volume);
    std::fs::remove_file(&scratch.pools[0]).expect("remove");
    let uuid = volume.uuid();
    assert_eq!(segments(uuid).len(), 1);
    drop(volume);
    assert_eq!(segments(uuid).len(), 0, "the last one removes it");
}

#[test]
fn read_only_refuses_changes_beside_an_attach_for_changes() {
    let scratch = Scratch::new(1, 16 << 20);
    let options = AttachOptions::default();
    let look =
        || Volume::attach(&scratch.pools[0], AttachMode::ReadOnly, &options).expect("attach");
    let create =
        |volume: &Volume, name: &[u8]| volume.create(InodeNumber::ROOT, name, &FILE).map(drop);
    let refused = Err(Errno(libc::EROFS));
    let changing = scratch.attach();
    let looking = look();
    assert!(looking.is_read_only() && !changing.is_read_only());
    assert_eq!(create(&looking, b"a"), refused);
    assert_eq!(create(&changing, b"a"), Ok(()));
    assert!(looking.lookup(InodeNumber::ROOT, b"a").is_ok());
    assert!(std::sync::Arc::ptr_eq(&looking, &look()));
    assert!(std::sync::Arc::ptr_eq(&changing, &scratch.attach()));
    // The other way round, and each leaves without taking the session from the other.
    drop(changing);
    assert!(looking.lookup(InodeNumber::ROOT, b"a").is_ok());
    let changing = scratch.attach();
    assert_eq!(create(&changing, b"b"), Ok(()));
    drop(looking);
    assert_eq!(create(&changing, b"c"), Ok(()));
    assert_joins(&scratch.pools[0], &changing);
    drop(changing);
    scratch.assert_clean();
}

#[test]
fn a_check_waits_for_who_is_about_to_leave() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let leaves = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        drop(volume);
    });
    scratch.assert_clean();
    leaves.join().expect("it left");
}

#[test]
fn threads_that_come_and_go_give_everything_back() {
    let scratch = Scratch::new(2, 32 << 20);
    let volume = scratch.attach();
    let free = |volume: &Volume| {
        let space = volume.space(None);
        (space.free_blocks, space.free_inodes)
    };
    let in_one_thread = |name: String| {
        let made = volume
            .create_open(InodeNumber::ROOT, name.as_bytes(), &FILE)
            .expect("create");
        let file = volume.open(made.ino, None).expect("open");
        volume.append(file, &vec![1; 100_000]).expect("append");
        volume
            .unlink(InodeNumber::ROOT, name.as_bytes())
            .expect("unlink");
        volume.close(made.ino);
        volume.close(made.ino);
    };
    let round = |turn: u32, threads: u32| {
        std::thread::scope(|scope| {
            let names = (0..threads).map(|thread| format!("{turn}-{thread}"));
            let started: Vec<_> = names
                .map(|name| scope.spawn(|| in_one_thread(name)))
                .collect();
            // The scope alone does not wait for destructors of thread-local values, where a thread gives back its slot.
            for thread in started {
                thread.join().expect("it ended");
            }
        });
    };
    round(0, 8);
    let before = free(&volume);
    for turn in 1..100 {
        round(turn, 8);
    }
    // What a busy part of the maps did not take back is given back by a later operation. The directory's own log
    // takes and frees a few blocks.
    eventually("all is free again", || {
        round(100, 1);
        let after = free(&volume);
        after.1 >= before.1 && after.0 + 16 >= before.0
    });
    drop(volume);
    scratch.assert_clean();
}
