//! Reading and writing through the mount.

use crate::common::*;
use egeria_mount::MountOptions;
use rustix::fs::{FlockOperation, OFlags, copy_file_range, flock};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::process::Command;

fn seek(file: &File, to: rustix::fs::SeekFrom) -> Result<u64, i32> {
    sys(rustix::fs::seek(file, to))
}

#[test]
fn what_is_written_is_read_and_survives_a_remount() {
    let Some(mount) = Mounted::new() else { return };
    let data = pattern(1, (5 << 20) + 123);
    fs::write(mount.path("file"), &data).unwrap();
    let file = File::options()
        .read(true)
        .write(true)
        .open(mount.path("file"))
        .unwrap();
    file.write_all_at(b"patched", 4093).unwrap();
    let mut expected = data;
    expected[4093..4100].copy_from_slice(b"patched");
    assert!(fs::read(mount.path("file")).unwrap() == expected);
    drop(file);
    let options = egeria_mount::MountOptions::default();
    let mount = mount.again(egeria_engine::AttachMode::CreateOrJoin, &options);
    assert!(fs::read(mount.path("file")).unwrap() == expected);
}

#[test]
fn many_threads_write_one_file_at_once() {
    let Some(mount) = Mounted::new() else { return };
    let file = File::create(mount.path("file")).unwrap();
    const PART: usize = 300_000;
    std::thread::scope(|scope| {
        for part in 0..8u8 {
            let file = &file;
            scope.spawn(move || {
                file.write_all_at(&pattern(part, PART), u64::from(part) * PART as u64)
                    .unwrap();
            });
        }
    });
    let expected: Vec<u8> = (0..8).flat_map(|part| pattern(part, PART)).collect();
    assert!(fs::read(mount.path("file")).unwrap() == expected);
}

/// `append_many_processes`: records of several processes, each whole, none lost.
#[test]
fn append_many_processes() {
    let Some(mount) = Mounted::new() else { return };
    let log = mount.path("log");
    let script = r#"n=0; while [ $n -lt 150 ]; do echo "process $1 record $n and some more text"; n=$((n+1)); done >> "$2""#;
    let children: Vec<_> = (0..6)
        .map(|process: u32| {
            let mut command = Command::new("sh");
            command
                .arg("-c")
                .arg(script)
                .arg("sh")
                .arg(process.to_string())
                .arg(&log);
            command.spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let text = fs::read_to_string(&log).unwrap();
    let mut next = [0; 6];
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(words.len(), 8, "torn record: {line}");
        let process: usize = words[1].parse().unwrap();
        assert_eq!(
            words[3].parse(),
            Ok(next[process]),
            "order of process {process}"
        );
        next[process] += 1;
    }
    assert_eq!(next, [150; 6]);
}

/// An append lands at the engine's end of file, though the kernel has not heard of it.
#[test]
fn an_append_lands_at_the_end_the_engine_knows() {
    let Some(mount) = Mounted::new() else { return };
    let mut kernel = File::options()
        .append(true)
        .create(true)
        .open(mount.path("log"))
        .unwrap();
    kernel.write_all(b"kernel-1 ").unwrap();
    let (ino, engine) = mount.engine_file("log");
    for turn in 0..20 {
        mount
            .volume
            .append(engine, format!("engine-{turn} ").as_bytes())
            .unwrap();
        kernel
            .write_all(format!("kernel-{turn} ").as_bytes())
            .unwrap();
    }
    mount.volume.close(ino);
    let expected: String = (0..20)
        .map(|turn| format!("engine-{turn} kernel-{turn} "))
        .collect();
    assert_eq!(
        fs::read_to_string(mount.path("log")).unwrap(),
        format!("kernel-1 {expected}")
    );
}

/// `F_SETFL` makes appends of later writes, and writes of later appends.
#[test]
fn append_is_what_the_flags_say_now() {
    let Some(mount) = Mounted::new() else { return };
    let mut file = File::create(mount.path("file")).unwrap();
    file.write_all(b"0123456789").unwrap();
    file.seek(SeekFrom::Start(2)).unwrap();
    let set = |flags| rustix::fs::fcntl_setfl(&file, flags);
    assert_eq!(set(OFlags::APPEND), Ok(()));
    file.write_all_at(b"X", 0).unwrap();
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"0123456789X");
    assert_eq!(set(OFlags::empty()), Ok(()));
    file.write_all_at(b"Y", 0).unwrap();
    assert_eq!(fs::read(mount.path("file")).unwrap(), b"Y123456789X");
}

#[test]
fn open_with_trunc_empties_and_without_keeps() {
    let Some(mount) = Mounted::new() else { return };
    fs::write(mount.path("file"), b"content").unwrap();
    let reader = File::open(mount.path("file")).unwrap();
    drop(
        File::options()
            .write(true)
            .open(mount.path("file"))
            .unwrap(),
    );
    assert_eq!(reader.metadata().unwrap().len(), 7);
    drop(
        File::options()
            .write(true)
            .truncate(true)
            .open(mount.path("file"))
            .unwrap(),
    );
    assert_eq!(reader.metadata().unwrap().len(), 0);
    assert_eq!(std::io::read_to_string(reader).unwrap(), "");
}

/// An unlinked file lives until its last descriptor is closed, and its space comes back then.
#[test]
fn unlinked_open_files_live() {
    let Some(mount) = Mounted::new() else { return };
    let free = mount.volume.space(None).free_blocks;
    let path = mount.path("doomed");
    let mut file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path);
    let file = file.as_mut().unwrap();
    file.write_all(&pattern(3, 2 << 20)).unwrap();
    fs::remove_file(&path).unwrap();
    fs::write(&path, b"another").unwrap();
    file.write_all(b"more").unwrap();
    file.set_len((2 << 20) + 2).unwrap();
    let metadata = file.metadata().unwrap();
    assert_eq!((metadata.nlink(), metadata.len()), (0, (2 << 20) + 2));
    file.seek(SeekFrom::Start(0)).unwrap();
    let mut content = Vec::new();
    file.read_to_end(&mut content).unwrap();
    assert!(content[..2 << 20] == pattern(3, 2 << 20));
    assert_eq!(&content[2 << 20..], b"mo");
    // Opened again through /proc, without a name.
    let again = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()));
    assert_eq!(again.unwrap().metadata().unwrap().len(), (2 << 20) + 2);
    fs::remove_file(&path).unwrap();
    assert!(mount.volume.space(None).free_blocks < free - 256);
    *file = File::open("/dev/null").unwrap();
    eventually("space of the closed file is free", || {
        mount.volume.space(None).free_blocks + 16 >= free
    });
}

/// Direct I/O is accepted at any alignment.
#[test]
fn o_direct_is_accepted() {
    let Some(mount) = Mounted::new() else { return };
    let mut options = File::options();
    options
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_DIRECT);
    let file = options.open(mount.path("file")).unwrap();
    file.write_all_at(&pattern(9, 10_000), 77).unwrap();
    let mut content = vec![0; 10_000];
    file.read_exact_at(&mut content, 77).unwrap();
    assert!(content == pattern(9, 10_000));
}

/// `O_TMPFILE` is refused as file systems without it do, so that programs fall back.
#[test]
fn o_tmpfile_is_refused_cleanly() {
    let Some(mount) = Mounted::new() else { return };
    let flags = libc::O_TMPFILE | libc::O_RDWR;
    assert_eq!(
        open(mount.path(""), flags, 0o600).unwrap_err(),
        libc::EOPNOTSUPP
    );
}

#[test]
fn sparse_files_have_holes_that_can_be_sought() {
    let Some(mount) = Mounted::new() else { return };
    let file = File::create(mount.path("sparse")).unwrap();
    file.write_all_at(b"data", 1 << 20).unwrap();
    file.set_len(4 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().blocks(), 8);
    use rustix::fs::SeekFrom::{Data, End, Hole};
    assert_eq!(seek(&file, Data(0)), Ok(1 << 20));
    assert_eq!(seek(&file, Hole(1 << 20)), Ok((1 << 20) + 4096));
    assert_eq!(seek(&file, Data(2 << 20)), Err(libc::ENXIO));
    assert_eq!(seek(&file, Hole(4 << 20)), Err(libc::ENXIO));
    assert_eq!(seek(&file, End(-5)), Ok((4 << 20) - 5));
    let huge = i64::MAX as u64 - 4096;
    file.write_all_at(b"far", huge).unwrap_or_else(|error| {
        assert_eq!(
            error.raw_os_error(),
            Some(libc::EFBIG),
            "a far offset works or is too far"
        );
    });
}

#[test]
fn fallocate_reserves_punches_and_zeroes() {
    let Some(mount) = Mounted::new() else { return };
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(mount.path("f"));
    let file = file.unwrap();
    file.write_all_at(&pattern(5, 65_536), 0).unwrap();
    allocate(&file, libc::FALLOC_FL_KEEP_SIZE, 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 65_536);
    allocate(&file, 0, 0, 1 << 20).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 1 << 20);
    assert_eq!(file.metadata().unwrap().blocks(), 2048);
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    allocate(&file, punch, 8192, 16_384).unwrap();
    allocate(&file, libc::FALLOC_FL_ZERO_RANGE, 40_000, 100).unwrap();
    let mut expected = pattern(5, 65_536);
    expected[8192..24_576].fill(0);
    expected[40_000..40_100].fill(0);
    let mut content = vec![0; 65_536];
    file.read_exact_at(&mut content, 0).unwrap();
    assert!(content == expected);
    assert!(file.metadata().unwrap().blocks() <= 2048 - 32);
    for unsupported in [libc::FALLOC_FL_COLLAPSE_RANGE, libc::FALLOC_FL_INSERT_RANGE] {
        assert_eq!(allocate(&file, unsupported, 0, 4096), Err(libc::EOPNOTSUPP));
    }
}

#[test]
fn copy_file_range_copies_inside_the_volume() {
    let options = MountOptions {
        page_cache_bytes: Some(0),
        ..MountOptions::default()
    };
    let Some(mount) = Mounted::with(&options) else {
        return;
    };
    let data = pattern(7, 3_333_333);
    fs::write(mount.path("from"), &data).unwrap();
    let from = File::open(mount.path("from")).unwrap();
    let to = File::create(mount.path("to")).unwrap();
    let (mut at, mut total) = (1000, 0);
    loop {
        match copy_file_range(&from, Some(&mut at), &to, None, 10 << 20).unwrap() {
            0 => break,
            copied => total += copied,
        }
    }
    assert_eq!(total, data.len() - 1000);
    assert!(fs::read(mount.path("to")).unwrap() == data[1000..]);
    let (ino, file) = mount.engine_file("from");
    assert!(
        !mount.volume.is_kernel_cached(file),
        "the source went through the page cache"
    );
    mount.volume.close(ino);
}

#[test]
fn everyday_programs_keep_data() {
    let Some(mount) = Mounted::new() else { return };
    let sh = |script: &str| {
        let output = Command::new("sh")
            .arg("-ec")
            .arg(script)
            .current_dir(mount.path(""))
            .output();
        let output = output.unwrap();
        assert!(
            output.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    sh("mkdir a && cp /etc/passwd a/ && cp -a a b && diff -r a b");
    sh("tar cf t.tar a b && mkdir c && tar xf t.tar -C c && diff -r a c/a");
    sh("mv c/a c/z && ln c/z/passwd hard && ln -s hard soft && cmp soft /etc/passwd");
    sh("dd if=/dev/urandom of=r bs=64k count=20 conv=fsync 2>/dev/null && cp r r2 && cmp r r2");
    sh("sort -u /etc/passwd > s && sed -i s/root/toor/ s && grep -q toor s && rm -r a b c");
}

/// Locks are the kernel's, and work among processes.
#[test]
fn locks_work() {
    let Some(mount) = Mounted::new() else { return };
    let (one, two) = (
        File::create(mount.path("l")).unwrap(),
        File::open(mount.path("l")).unwrap(),
    );
    flock(&one, FlockOperation::LockExclusive).unwrap();
    let try_lock = || sys(flock(&two, FlockOperation::NonBlockingLockExclusive));
    assert_eq!(try_lock(), Err(libc::EWOULDBLOCK));
    flock(&one, FlockOperation::Unlock).unwrap();
    try_lock().unwrap();
    // SAFETY: plain integers; rustix locks whole files alone.
    let lockf = unsafe { libc::lockf(one.as_raw_fd(), libc::F_TLOCK, 10) };
    assert_eq!(lockf, 0);
}

/// What the sync family waits for has happened already, and it succeeds.
#[test]
fn syncing_succeeds() {
    let Some(mount) = Mounted::new() else { return };
    let mut file = File::create(mount.path("f")).unwrap();
    file.write_all(b"x").unwrap();
    file.sync_all().unwrap();
    file.sync_data().unwrap();
    File::open(mount.path("")).unwrap().sync_all().unwrap();
    rustix::fs::syncfs(&file).unwrap();
}

/// A full volume says so, keeps what it has, and takes new data when something goes.
#[test]
fn a_full_volume_says_enospc() {
    if !can_mount() {
        return;
    }
    let place = Place::with_pools_of(16 << 20);
    let options = egeria_mount::MountOptions::default();
    let mount = Mounted::at(place, egeria_engine::AttachMode::CreateOrJoin, &options);
    fs::write(mount.path("kept"), pattern(1, 1 << 20)).unwrap();
    let mut file = File::create(mount.path("filler")).unwrap();
    let full = std::iter::repeat_with(|| file.write_all(&[7; 1 << 16])).find_map(Result::err);
    assert_eq!(full.unwrap().raw_os_error(), Some(libc::ENOSPC));
    assert!(fs::read(mount.path("kept")).unwrap() == pattern(1, 1 << 20));
    drop(file);
    fs::remove_file(mount.path("filler")).unwrap();
    eventually("there is room again", || {
        fs::write(mount.path("new"), [1; 1 << 20]).is_ok()
    });
}
