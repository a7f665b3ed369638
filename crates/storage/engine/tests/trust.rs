//! Pools and sessions of other users: never believed, never changed. Needs root, to be several users.

use crate::common::*;
use egeria_engine::format::*;
use egeria_engine::*;
use egeria_harness::testing::is_root;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const NOBODY: u32 = 65534;
/// A user whom nothing belongs to.
const OTHER_USER: u32 = 61_234;
const ROLE: &str = "EGERIA_TEST_TRUST";

/// This program as another user, playing a part.
fn as_user(user: u32, part: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["trust::part_of_another_user", "--exact", "--nocapture"])
        .env(ROLE, part)
        .uid(user)
        .gid(user)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command
}

/// Not a test by itself: what another user does.
#[test]
fn part_of_another_user() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let mut words = role.split('#');
    let mut word = || words.next().unwrap_or_default();
    match word() {
        "mkdir" => std::fs::create_dir(word()).expect("mkdir"),
        "stay attached" => {
            let volume = attach(Path::new(word()), AttachMode::CreateOrJoin).expect("attach");
            println!("\nattached");
            let _ = std::io::stdin().read_line(&mut String::new());
            drop(volume);
        }
        "make and attach" => {
            let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
            let pool = make_volume(&[directory.path().join("pool")]);
            let first = attach(&pool, AttachMode::CreateOrJoin).expect("attach");
            let joined = Command::new(std::env::current_exe().expect("this program"))
                .args(["trust::part_of_another_user", "--exact"])
                .env(ROLE, format!("join#{}", pool.display()))
                .output()
                .expect("a process");
            assert!(joined.status.success(), "{joined:?}");
            drop(first);
        }
        "join" => drop(attach(Path::new(word()), AttachMode::Join).expect("join")),
        other => panic!("no part {other}"),
    }
}

fn attach(pool: &Path, mode: AttachMode) -> Result<std::sync::Arc<Volume>, VolumeError> {
    Volume::attach(pool, mode, &AttachOptions::default())
}

fn make_volume(pools: &[PathBuf]) -> PathBuf {
    let requests: Vec<PoolRequest> = pools
        .iter()
        .map(|path| PoolRequest {
            node: 0,
            path: path.clone(),
            bytes: Some(16 << 20),
        })
        .collect();
    create_volume(&requests, &CreateOptions::default()).expect("mkfs");
    pools[0].clone()
}

/// A process that has the volume attached until it is told to leave.
fn attached_process(pool: &Path) -> Child {
    let role = format!("stay attached#{}", pool.display());
    let mut process = as_user(0, &role).spawn().expect("a process");
    let said = BufReader::new(process.stdout.take().expect("a pipe"));
    let mut lines = said.lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "attached"));
    // The rest of what it says has nobody to read it, which must not end it.
    std::thread::spawn(move || lines.for_each(drop));
    process
}

fn leave(mut process: Child) {
    drop(process.stdin.take());
    assert_eq!(egeria_harness::testing::wait(&mut process), 0);
}

fn refused(outcome: Result<std::sync::Arc<Volume>, VolumeError>, errno: i32, words: &str) {
    let error = outcome.err().expect("refused");
    assert_eq!(error.errno, errno, "{error}");
    assert!(error.message.contains(words), "{error}");
}

fn chown(path: &Path, user: u32) {
    std::os::unix::fs::chown(path, Some(user), Some(user)).expect("chown");
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
}

fn segment(volume: uuid::Uuid) -> PathBuf {
    let prefix = format!("{}-", volume.simple());
    let entries = std::fs::read_dir("/dev/shm/egeria-0").expect("root's sessions");
    let mut names = entries.flatten().map(|entry| entry.path());
    let ours = |path: &PathBuf| path.to_string_lossy().contains(&prefix);
    names.find(ours).expect("the session")
}

#[test]
fn sessions_of_other_users_are_not_joined() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new(1, 16 << 20);
    let uuid = scratch.attach().uuid();
    let process = attached_process(&scratch.pools[0]);
    let segment = segment(uuid);
    let join = || attach(&scratch.pools[0], AttachMode::Join);
    drop(join().expect("in order"));

    chown(&segment, NOBODY);
    refused(join(), libc::EPERM, "another user");
    chown(&segment, 0);
    for mode in [0o604, 0o660, 0o602] {
        chmod(&segment, mode);
        refused(join(), libc::EPERM, "another user");
    }
    chmod(&segment, 0o600);
    let other = segment.with_extension("other");
    std::fs::hard_link(&segment, &other).expect("link");
    refused(join(), libc::EPERM, "another user");
    std::fs::remove_file(&segment).expect("unlink");
    symlink(&other, &segment).expect("symlink");
    refused(join(), libc::EINVAL, "cannot join");
    std::fs::rename(&other, &segment).expect("rename");
    drop(join().expect("in order again"));
    leave(process);
    assert!(!segment.exists());
}

#[test]
fn nobody_joins_where_nobody_is_attached_whatever_pool_0_says() {
    let scratch = Scratch::new(1, 16 << 20);
    let line = || {
        let mut line = [0u8; 64];
        let pool = std::fs::File::open(&scratch.pools[0]).expect("open");
        pool.read_exact_at(&mut line, SESSION_LINE_BLOCK.offset().0)
            .expect("read");
        line
    };
    let volume = scratch.attach();
    let during = line();
    drop(volume);
    let after = line();
    assert_eq!(
        (&during[..8], &after[..8]),
        (&b"EGLINE01"[..], &b"EGLINE00"[..])
    );
    assert_eq!(during[8..40], after[8..40], "which one it was stays known");
    let pool = std::fs::File::options().write(true).open(&scratch.pools[0]);
    let pool = pool.expect("open");
    pool.write_all_at(&during, SESSION_LINE_BLOCK.offset().0)
        .expect("write");
    let join = attach(&scratch.pools[0], AttachMode::Join);
    refused(join, libc::ENOENT, "nobody has the volume");
}

#[test]
fn pools_of_others_and_pools_open_to_others_are_refused() {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new(2, 16 << 20);
    let pool = &scratch.pools[0];
    let tried = || attach(pool, AttachMode::CreateOrJoin);
    chown(pool, NOBODY);
    refused(tried(), libc::EPERM, "belongs to user 65534");
    chown(pool, 0);
    chmod(pool, 0o660);
    refused(tried(), libc::EPERM, "open to other users");
    chmod(pool, 0o600);
    let link = scratch.directory.path().join("link");
    std::fs::hard_link(pool, &link).expect("link");
    refused(tried(), libc::EPERM, "has 2 names");
    std::fs::remove_file(link).expect("unlink");
    chown(&scratch.pools[1], NOBODY);
    refused(tried(), libc::EPERM, "belongs to user 65534");
    chown(&scratch.pools[1], 0);
    drop(tried().expect("in order"));
}

/// What nobody can make who knows root's UUID, paths and sizes, which are public.
fn forged_pool(scratch: &Scratch, target: &Path) {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    let root = std::fs::File::open(&scratch.pools[0]).expect("open");
    root.read_exact_at(&mut bytes, 0).expect("read");
    let genuine = Superblock::decode(&bytes).expect("a superblock");
    for (version, secret) in [
        (2, [0; 16]),
        (3, [7; 16]),
        (4, [7; 16]),
        (3, genuine.secret),
    ] {
        let forged = Superblock {
            version,
            secret,
            ..genuine.clone()
        };
        let file = std::fs::File::create(target).expect("a pool");
        file.set_len(16 << 20).expect("its size");
        for copy in SUPERBLOCK_COPIES {
            let at = copy * BLOCK as u64;
            file.write_all_at(&forged.encode(), at).expect("write");
        }
        chmod(target, 0o600);
        let tried = attach(target, AttachMode::CreateOrJoin);
        refused(tried, libc::EPERM, "was not made with it");
    }
}

#[test]
fn a_pool_that_was_handed_over_leads_to_no_other_volume() {
    let scratch = Scratch::new(2, 16 << 20);
    let before: Vec<Vec<u8>> = scratch
        .pools
        .iter()
        .map(|pool| std::fs::read(pool).expect("read"))
        .collect();
    forged_pool(&scratch, &scratch.directory.path().join("handed over"));
    for (pool, before) in scratch.pools.iter().zip(before) {
        let now = std::fs::read(pool).expect("read");
        assert!(now == before, "{} was changed", pool.display());
    }
}

#[test]
fn no_pool_is_attached_twice_with_copies_of_siblings() {
    let scratch = Scratch::new(2, 16 << 20);
    let copy = scratch.directory.path().join("copy");
    std::fs::copy(&scratch.pools[0], &copy).expect("copy");
    let process = attached_process(&scratch.pools[0]);
    let tried = attach(&copy, AttachMode::CreateOrJoin);
    refused(tried, libc::EBUSY, "attached");
    leave(process);
    drop(attach(&copy, AttachMode::CreateOrJoin).expect("alone now"));
}

#[test]
fn lock_wait_ends_at_its_limit() {
    let scratch = Scratch::new(1, 16 << 20);
    let pool = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&scratch.pools[0]);
    let pool = pool.expect("open");
    let from = 0x4000_0000_0000_0000;
    egeria_harness::locks::lock_description(&pool, libc::F_WRLCK, from, 0).unwrap();
    let tried = attach(&scratch.pools[0], AttachMode::CreateOrJoin);
    refused(tried, libc::EAGAIN, "by another process");
    drop(pool);
    drop(scratch.attach());
}

#[test]
fn fifos_terminals_and_sockets_are_refused_at_once() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let fifo = directory.path().join("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).expect("a fifo");
    let socket = directory.path().join("socket");
    let _listening = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    for path in [
        fifo.as_path(),
        &socket,
        Path::new("/dev/tty"),
        Path::new("/dev/null"),
    ] {
        for mode in [AttachMode::CreateOrJoin, AttachMode::Join] {
            refused(
                attach(path, mode),
                libc::EINVAL,
                "neither a file nor a device",
            );
        }
        assert!(check_volume(path, false, &mut |_, _| {}).is_err());
    }
}

#[test]
fn a_user_whose_directory_of_sessions_others_took_has_another() {
    if !is_root() {
        return;
    }
    let taken = format!("/dev/shm/egeria-{OTHER_USER}");
    let _ = std::fs::remove_dir_all(&taken);
    let mkdir = as_user(NOBODY, &format!("mkdir#{taken}")).status();
    assert!(mkdir.expect("a process").success());
    let works = as_user(OTHER_USER, "make and attach").output();
    let works = works.expect("a process");
    let mut others = Vec::new();
    for entry in std::fs::read_dir("/dev/shm").expect("/dev/shm").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("egeria-{OTHER_USER}-")) {
            let metadata = entry.metadata().expect("stat");
            others.push((metadata.uid(), metadata.mode() & 0o777));
            std::fs::remove_dir_all(entry.path()).expect("remove");
        }
    }
    std::fs::remove_dir(&taken).expect("nobody's is empty");
    assert!(works.status.success(), "{works:?}");
    assert_eq!(others, [(OTHER_USER, 0o700)]);
}
