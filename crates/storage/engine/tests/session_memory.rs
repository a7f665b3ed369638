//! A /dev/shm that is full or cannot be written: an error with cause and hint, no SIGBUS, and nothing lost.
//!
//! Each part runs in a process of its own that sees a /dev/shm of its own.

use crate::common::*;
use egeria_engine::*;
use egeria_harness::process::separate_mounts;
use egeria_harness::testing::{is_root, skip};
use rustix::mount::{MountFlags, mount, mount_remount};
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

const ROOT: InodeNumber = InodeNumber::ROOT;
const PART: &str = "EGERIA_TEST_SESSION_MEMORY";

/// Run a part in a new process; not as root there is nothing to run.
fn part(name: &str) {
    if !is_root() {
        return;
    }
    // Pools must not lie in the /dev/shm that is full.
    let directory = tempfile::tempdir().expect("scratch directory");
    let output = Command::new(std::env::current_exe().expect("path of the test"))
        .args([
            "--exact",
            "session_memory::parts",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(PART, format!("{name};{}", directory.path().display()))
        .stdin(Stdio::null())
        .output()
        .expect("a part");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}\n{said}", output.status);
    assert!(said.contains(&format!("{name}: done")), "{said}");
}

/// Not a test by itself: what `part` starts.
#[test]
fn parts() {
    let Ok(part) = std::env::var(PART) else {
        return;
    };
    let (name, directory) = part.split_once(';').expect("part and directory");
    let pool = make_pool(Path::new(directory));
    match name {
        "none" => nothing_at_all(&pool),
        "later" => full_later(&pool),
        "read-only" => cannot_be_written(&pool),
        "group" => full_group(&pool),
        name => panic!("no part {name}"),
    }
    eprintln!("{name}: done");
}

fn make_pool(directory: &Path) -> PathBuf {
    let path = directory.join("pool");
    let request = PoolRequest {
        node: 0,
        path: path.clone(),
        bytes: Some(64 << 20),
    };
    create_volume(&[request], &CreateOptions::default()).expect("mkfs");
    path
}

/// A /dev/shm of this process alone.
fn own_memory(options: &CStr, flags: MountFlags) {
    separate_mounts().expect("unshare");
    mount("tmpfs", "/dev/shm", "tmpfs", flags, options).expect("mount");
}

fn attach(pool: &Path) -> Result<Arc<Volume>, VolumeError> {
    Volume::attach(pool, AttachMode::CreateOrJoin, &AttachOptions::default())
}

fn should_fail(pool: &Path, errno: i32, hint: &str) {
    let error = attach(pool).err().expect("refused");
    assert_eq!(error.errno, errno, "{error}");
    assert!(error.message.contains(hint), "{error}");
    let left = std::fs::read_dir("/dev/shm").expect("/dev/shm").count();
    assert_eq!(left, 0, "a segment is left behind");
}

fn nothing_at_all(pool: &Path) {
    // With a little more each time, memory ends at another place of making a session.
    own_memory(c"size=4k", MountFlags::empty());
    for kib in (4..4096).step_by(16) {
        let size = format!("size={kib}k");
        mount_remount("/dev/shm", MountFlags::empty(), size).expect("remount");
        match attach(pool) {
            Ok(volume) => {
                assert!(kib > 4, "4 KiB are enough for a session");
                drop(volume);
                return;
            }
            Err(error) => assert!(
                matches!(error.errno, libc::ENOSPC | libc::ENOMEM)
                    && error.message.contains("mount it larger"),
                "{error}"
            ),
        }
        let left = std::fs::read_dir(sessions()).into_iter().flatten();
        assert_eq!(left.count(), 0, "a segment is left behind");
    }
    panic!("4 MiB are not enough for a session");
}

fn cannot_be_written(pool: &Path) {
    own_memory(c"size=64m", MountFlags::RDONLY);
    should_fail(pool, libc::EROFS, "make it writable");
}

/// A memory control group that this process is in; removed when dropped.
struct OwnGroup(PathBuf);

impl OwnGroup {
    /// `None` where none can be made.
    fn enter(limit_bytes: u64) -> Option<OwnGroup> {
        let name = format!("egeria-test-{}", std::process::id());
        let version_1 = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes");
        let version_2 = ("/sys/fs/cgroup", "memory.max");
        [version_1, version_2]
            .into_iter()
            .find_map(|(mount, limit)| {
                let group = OwnGroup(Path::new(mount).join(&name));
                std::fs::create_dir(&group.0).ok()?;
                std::fs::write(group.0.join(limit), limit_bytes.to_string()).ok()?;
                std::fs::write(group.0.join("cgroup.procs"), "0").ok()?;
                Some(group)
            })
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        let above = self.0.parent().expect("the mount");
        // Where it was before does not matter: this process ends.
        let _ = std::fs::write(above.join("cgroup.procs"), "0");
        let _ = std::fs::remove_dir(&self.0);
    }
}

fn full_group(pool: &Path) {
    own_memory(c"size=1g", MountFlags::empty());
    let Some(group) = OwnGroup::enter(48 << 20) else {
        skip("no memory control group can be made here");
        return;
    };
    let volume = attach(pool).expect("attach");
    let ino = volume.create(ROOT, b"sparse", &FILE).expect("create").ino;
    let file = volume.open(ino, None).expect("open");
    // Each needs some 20 KiB of the session: several times the limit in all, and /dev/shm has room for that.
    let mut far = (0..10_000).map(|far| volume.write(file, far << 30, b"far"));
    let refused = far.find_map(Result::err);
    assert_eq!(refused, Some(Errno(libc::ENOMEM)), "and nobody was killed");
    // What is freed is there for others.
    volume.close(ino);
    volume.unlink(ROOT, b"sparse").expect("unlink");
    let ino = volume.create(ROOT, b"other", &FILE).expect("create").ino;
    let file = volume.open(ino, None).expect("open");
    volume.write(file, 1 << 33, b"far").expect("a write");
    drop(volume);
    drop(group);
}

/// Work until memory ends, under everything the session takes more of: inodes, trees, names, threads.
fn full_later(pool: &Path) {
    own_memory(c"size=64m", MountFlags::empty());
    let volume = attach(pool).expect("attach");
    volume.create(ROOT, b"kept", &FILE).expect("create");
    let kept = volume.lookup(ROOT, b"kept").expect("lookup").ino;
    let file = volume.open(kept, None).expect("open");
    volume.write(file, 0, &[7; 10_000]).expect("write");
    let filler = fill_memory();
    let (made, errno) = make_until_refused(&volume);
    assert_eq!(errno, Errno(libc::ENOMEM), "after {made} files");
    // The index of a file with far holes needs pages of the session.
    let far = (0..20).map(|far| volume.write(file, far << 33, b"far"));
    let refused = far.filter(|outcome| outcome.is_err()).count();
    assert!(refused > 0, "no write needed memory");
    // New threads need slots; who has one goes on.
    std::thread::scope(|scope| {
        for _ in 0..64 {
            let look = scope.spawn(|| volume.attributes(ROOT).map(drop));
            let looked = look.join().expect("a thread");
            assert!(
                matches!(looked, Ok(()) | Err(Errno(libc::ENOMEM))),
                "{looked:?}"
            );
        }
    });
    let mut bytes = [0; 10_000];
    assert_eq!(volume.read(file, 0, &mut bytes[..4000]), Ok(4000));
    drop(filler);
    std::fs::remove_file("/dev/shm/filler").expect("the filler");
    // With memory again everything goes on, and everything that returned is there.
    volume.create(ROOT, b"after", &FILE).expect("create");
    for number in 0..made {
        let name = format!("n{number}");
        volume.lookup(ROOT, name.as_bytes()).expect(&name);
    }
    assert_eq!(
        names(&volume, ROOT).len() as u64,
        made + 4,
        "names, `.` and `..`"
    );
    drop(volume);
    let report = check_volume(pool, false, &mut |_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

fn fill_memory() -> std::fs::File {
    use std::io::Write;
    let mut filler = std::fs::File::create("/dev/shm/filler").expect("a file");
    let mut bytes = 1 << 20;
    while bytes >= 4096 {
        if filler.write_all(&vec![1; bytes]).is_err() {
            bytes /= 2;
        }
    }
    filler
}

fn make_until_refused(volume: &Volume) -> (u64, Errno) {
    for number in 0..100_000 {
        let name = format!("n{number}");
        if let Err(errno) = volume.create(ROOT, name.as_bytes(), &FILE) {
            return (number, errno);
        }
    }
    panic!("memory never ends");
}

#[test]
fn no_memory_for_a_session_is_an_error_with_a_hint() {
    part("none");
}

#[test]
fn a_full_session_is_enomem_and_loses_nothing() {
    part("later");
}

#[test]
fn full_memory_group_is_enomem_and_kills_nobody() {
    part("group");
}

#[test]
fn a_dev_shm_that_cannot_be_written_is_an_error_with_a_hint() {
    part("read-only");
}

#[test]
fn memory_of_removed_files_goes_back_to_the_system() {
    use std::os::unix::fs::MetadataExt;
    let scratch = Scratch::new(1, 64 << 20);
    let volume = scratch.attach();
    let segment = segments(volume.uuid()).pop().expect("a segment");
    let used_bytes = || std::fs::metadata(&segment).expect("stat").blocks() * 512;
    let write_far_apart = |name: &[u8]| {
        let ino = volume.create(ROOT, name, &FILE).expect("create").ino;
        let file = volume.open(ino, None).expect("open");
        for at in 0..4000u64 {
            volume.write(file, at << 40, b"x").expect("write");
        }
        volume.close(ino);
    };
    let before = used_bytes();
    write_far_apart(b"sparse");
    let during = used_bytes();
    assert!(during > before + (40 << 20), "{before} {during}");
    volume.unlink(ROOT, b"sparse").expect("unlink");
    volume.reap();
    let after = used_bytes();
    assert!(after < before + (10 << 20), "{before} {during} {after}");
    // What went back can be had again.
    write_far_apart(b"again");
    assert!(used_bytes() > during - (10 << 20));
    scratch_is_whole(&volume);
}

#[test]
fn files_that_are_not_used_take_no_memory_in_a_session() {
    use std::os::unix::fs::MetadataExt;
    const FILES: u64 = 4000;
    let scratch = Scratch::new(1, 64 << 20);
    let used_bytes = |volume: &Volume| {
        let segment = segments(volume.uuid()).pop().expect("a segment");
        std::fs::metadata(segment).expect("stat").blocks() * 512
    };
    let volume = scratch.attach();
    let empty = used_bytes(&volume);
    for number in 0..FILES {
        let name = format!("n{number}");
        let ino = volume.create(ROOT, name.as_bytes(), &FILE).expect("create");
        let file = volume.open(ino.ino, None).expect("open");
        volume.write(file, 0, &[1; 4096]).expect("write");
        volume.close(ino.ino);
    }
    let made = used_bytes(&volume);
    assert!(made > empty + FILES * 256, "{empty} {made}");
    drop(volume);
    let volume = scratch.attach();
    let attached = used_bytes(&volume);
    assert!(attached < empty + FILES * 128, "{empty} {attached}");
    assert_eq!(names(&volume, ROOT).len() as u64, FILES + 2);
}

fn scratch_is_whole(volume: &Volume) {
    let ino = volume.lookup(ROOT, b"again").expect("lookup").ino;
    let file = volume.open(ino, None).expect("open");
    let mut byte = [0];
    for at in 0..4000u64 {
        assert_eq!(volume.read(file, at << 40, &mut byte), Ok(1));
        assert_eq!(byte, *b"x");
    }
}
