//! `stat` and what it shows.

use crate::common::*;
use rustix::fs::{AtFlags, CWD, StatxFlags, Timespec, Timestamps, statx, utimensat};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

type Time = (i64, i64);

fn times(path: &Path) -> (Time, Time) {
    let metadata = fs::metadata(path).unwrap();
    let access = (metadata.atime(), metadata.atime_nsec());
    (access, (metadata.mtime(), metadata.mtime_nsec()))
}

fn set_times(path: &Path, access: Time, change: Time) {
    let spec = |time: Time| Timespec {
        tv_sec: time.0,
        tv_nsec: time.1,
    };
    let times = Timestamps {
        last_access: spec(access),
        last_modification: spec(change),
    };
    utimensat(CWD, path, &times, AtFlags::empty()).unwrap();
}

const OMIT: Time = (0, libc::UTIME_OMIT);
const NOW: Time = (0, libc::UTIME_NOW);

/// `utime_omit`: `UTIME_OMIT` and `UTIME_NOW`, each alone.
#[test]
fn utime_omit() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("file");
    File::create(&path).unwrap();
    set_times(&path, (1000, 1), (2000, 2));
    assert_eq!(times(&path), ((1000, 1), (2000, 2)));
    set_times(&path, OMIT, (3000, 3));
    assert_eq!(times(&path), ((1000, 1), (3000, 3)));
    set_times(&path, (4000, 4), OMIT);
    assert_eq!(times(&path), ((4000, 4), (3000, 3)));
    set_times(&path, NOW, OMIT);
    assert!(times(&path).0.0 > 1_600_000_000);
    assert_eq!(times(&path).1, (3000, 3));
    set_times(&path, (5000, 5), NOW);
    assert_eq!(times(&path).0, (5000, 5));
    assert!(times(&path).1.0 > 1_600_000_000);
}

#[test]
fn times_before_the_epoch_and_to_the_nanosecond() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("file");
    File::create(&path).unwrap();
    set_times(&path, (-2, 750_000_000), (-1, 999_999_999));
    assert_eq!(times(&path), ((-2, 750_000_000), (-1, 999_999_999)));
    set_times(&path, (4_000_000_000, 123_456_789), (0, 0));
    assert_eq!(times(&path), ((4_000_000_000, 123_456_789), (0, 0)));
}

/// Times the volume cannot hold become its last, and nobody falls over them.
#[test]
fn times_beyond_the_range_are_its_ends() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("file");
    File::create(&path).unwrap();
    set_times(&path, (i64::MAX, 0), (i64::MIN + 1, 0));
    let ((late, _), (early, _)) = times(&path);
    assert_eq!((late, early), (9_223_372_036, -9_223_372_037));
}

/// `nlink_fresh`: link counts and times are fresh at once through every path.
#[test]
fn nlink_fresh() {
    let Some(mount) = Mounted::new() else { return };
    let (first, second) = (mount.path("first"), mount.path("second"));
    let file = File::create(&first).unwrap();
    let change = |path: &Path| {
        let metadata = fs::metadata(path).unwrap();
        (metadata.ctime(), metadata.ctime_nsec())
    };
    let before = change(&first);
    // Longer than the kernel's tick, which stamps.
    std::thread::sleep(Duration::from_millis(30));
    fs::hard_link(&first, &second).unwrap();
    assert_eq!(fs::metadata(&first).unwrap().nlink(), 2);
    assert_eq!(fs::metadata(&second).unwrap().nlink(), 2);
    assert!(change(&first) > before);
    assert_eq!(change(&first), change(&second));
    fs::remove_file(&first).unwrap();
    assert_eq!(fs::metadata(&second).unwrap().nlink(), 1);
    assert_eq!(file.metadata().unwrap().nlink(), 1);
    fs::rename(&second, &first).unwrap();
    fs::remove_file(&first).unwrap();
    assert_eq!(file.metadata().unwrap().nlink(), 0);
    assert_eq!(fs::metadata(mount.path("")).unwrap().nlink(), 2);
    fs::create_dir(mount.path("directory")).unwrap();
    assert_eq!(fs::metadata(mount.path("")).unwrap().nlink(), 3);
}

/// What another user of the engine changes is seen by the next `stat`, without waiting.
#[test]
fn changes_past_the_kernel_are_seen_at_once() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("file");
    fs::write(&path, b"12345").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 5);
    let (ino, file) = mount.engine_file("file");
    mount.volume.write(file, 5, b"678").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 8);
    assert_eq!(fs::read(&path).unwrap(), b"12345678");
    mount.volume.close(ino);
    mount
        .volume
        .unlink(egeria_engine::InodeNumber::ROOT, b"file")
        .unwrap();
    assert_eq!(errno(fs::metadata(&path)), libc::ENOENT);
}

/// `noatime_relatime`: access times change by request only, whatever reads.
#[test]
fn noatime_relatime() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("program");
    fs::copy("/bin/true", &path).unwrap();
    set_times(&path, (1000, 0), (500, 0));
    let mut content = Vec::new();
    File::open(&path)
        .unwrap()
        .read_to_end(&mut content)
        .unwrap();
    assert!(
        std::process::Command::new(&path)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(times(&path).0, (1000, 0));
    let directory = mount.path("directory");
    fs::create_dir(&directory).unwrap();
    set_times(&directory, (1000, 0), (2000, 0));
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    assert_eq!(times(&directory).0, (1000, 0));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let point = mount.place().point().to_str().unwrap();
    let line = mounts.lines().find(|line| line.contains(point)).unwrap();
    assert!(
        line.contains("noatime") && line.contains("fuse.egeria"),
        "{line}"
    );
}

#[test]
fn writing_and_truncating_change_the_times() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("file");
    let mut file = File::create(&path).unwrap();
    set_times(&path, (1000, 0), (2000, 0));
    file.write_all(b"x").unwrap();
    assert!(times(&path).1.0 > 1_600_000_000);
    set_times(&path, (1000, 0), (2000, 0));
    file.set_len(0).unwrap();
    assert!(times(&path).1.0 > 1_600_000_000);
    set_times(&path, (1000, 0), (2000, 0));
    File::create(&path).unwrap();
    assert!(times(&path).1.0 > 1_600_000_000, "O_TRUNC of an empty file");
}

#[test]
fn statfs_counts_space_and_inodes() {
    let Some(mount) = Mounted::new() else { return };
    let statfs = || rustix::fs::statfs(mount.path("")).unwrap();
    let before = statfs();
    assert_eq!((before.f_bsize, before.f_namelen), (4096, 255));
    assert!(
        before.f_blocks >= before.f_bfree
            && before.f_bfree >= before.f_bavail
            && before.f_bavail > 0
    );
    fs::write(mount.path("file"), vec![1u8; 4 << 20]).unwrap();
    let after = statfs();
    assert!(before.f_bfree - after.f_bfree >= 1024);
    assert_eq!(before.f_blocks, after.f_blocks);
    assert!(after.f_files >= after.f_ffree);
}

/// A request of a kernel newer than fuser is declined, not fatal.
#[test]
fn unknown_requests_are_declined() {
    let Some(mount) = Mounted::new() else { return };
    let file = File::create(mount.path("file")).unwrap();
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let found = statx(&file, "", AtFlags::EMPTY_PATH, mask).unwrap();
    assert_eq!(found.stx_mask & StatxFlags::BTIME.bits(), 0);
    assert_eq!(file.metadata().unwrap().len(), 0);
}
