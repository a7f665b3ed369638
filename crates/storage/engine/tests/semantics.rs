//! docs/reference/semantics.md, statement by statement: each test bears the number of the statement it holds.
//! Statements about the mount and the preload library are held by their own tests, named there.

mod document;
mod limits;
mod space;

use crate::common::clock::coarse_now_ns;
use crate::common::*;
use egeria_engine::format::*;
use egeria_engine::*;
use egeria_media::recorder::{Event, Recorder};
use egeria_media::{Persistence, PoolIndex, PoolOffset};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

const ROOT: InodeNumber = InodeNumber::ROOT;

/// A new file in the root, open.
fn open_new(volume: &Volume, name: &[u8]) -> FileReference {
    let made = volume.create_open(ROOT, name, &FILE).unwrap();
    volume.file(made.ino).unwrap()
}

fn failed<T: std::fmt::Debug>(outcome: Outcome<T>) -> i32 {
    outcome.expect_err("an error").0
}

/// Where the commit word of an inode of pool 0 lies.
fn commit_word_at(volume: &Volume, ino: InodeNumber) -> PoolOffset {
    let (pool, index) = inode_place(ino.0).unwrap();
    assert_eq!(pool, PoolIndex(0), "tests with one pool");
    let media = &volume.pools()[0];
    let geometry = Geometry::new(0, media.blocks());
    let chunk = index / INODES_PER_BLOCK;
    let word = media.load_u64(inode_pointer(&geometry, chunk)).unwrap();
    let block = decode_inode_pointer(chunk, word).unwrap().unwrap();
    block.offset() + index % INODES_PER_BLOCK * INODE_BYTES
}

/// How often `body` stores the commit word of a file.
fn commits(volume: &Volume, file: FileReference, body: impl FnOnce()) -> usize {
    let at = commit_word_at(volume, file.ino());
    let recorder = Recorder::new();
    recorder.attach(PoolIndex(0), &volume.pools()[0]).unwrap();
    body();
    Recorder::detach(&volume.pools()[0]);
    let recording = recorder.take();
    let stores = recording.events().iter();
    stores
        .filter(|event| matches!(event, Event::Store { at: place, .. } if *place == at))
        .count()
}

#[test]
fn s01_what_returned_is_durable_without_fsync() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    let recorder = Recorder::new();
    recorder.attach(PoolIndex(0), &volume.pools()[0]).unwrap();
    let operations: [&dyn Fn(); 7] = [
        &|| assert_eq!(volume.write(file, 100, &[7; 10_000]), Ok(10_000)),
        &|| assert_eq!(volume.append(file, b"more"), Ok((10_100, 4))),
        &|| assert!(volume.create(ROOT, b"other", &DIRECTORY).is_ok()),
        &|| assert!(volume.link(file.ino(), ROOT, b"second").is_ok()),
        &|| {
            let any = XattrMode::Any;
            volume.set_xattr(file.ino(), b"user.a", b"b", any).unwrap();
        },
        &|| {
            let mode = RenameMode::Replace;
            volume
                .rename(ROOT, b"second", ROOT, b"third", mode)
                .unwrap();
        },
        &|| volume.unlink(ROOT, b"third").unwrap(),
    ];
    for (index, operation) in operations.iter().enumerate() {
        operation();
        recorder.mark(index as u64);
    }
    Recorder::detach(&volume.pools()[0]);
    assert_eq!(durable_marks(&recorder), operations.len());
}

#[test]
fn s02_a_write_is_one_commit() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    for (offset, bytes) in [
        (0, 1),
        (100, 3 << 20),
        (4096, 4096),
        (4095, 2),
        (9_000_000, 50_000),
    ] {
        let data = vec![3; bytes];
        let write = || assert_eq!(volume.write(file, offset, &data), Ok(bytes));
        assert_eq!(commits(&volume, file, write), 1, "{bytes} at {offset}");
    }
    let append = || assert_eq!(volume.append(file, &[1; 9000]).unwrap().1, 9000);
    assert_eq!(commits(&volume, file, append), 1);
}

#[test]
fn s04_a_read_sees_each_write_wholly_or_not_at_all() {
    const BYTES: usize = 200_000;
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    volume.write(file, 1000, &[0; BYTES]).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0u32.. {
                volume.write(file, 1000, &[round as u8; BYTES]).unwrap();
                if over.load(Ordering::Acquire) {
                    break;
                }
            }
        });
        let (mut seen, mut reads) = (BTreeSet::new(), 0);
        let mut read = vec![0; BYTES];
        // As long as it takes to be sure that the two met.
        while seen.len() < 50 || reads < 500 {
            let whole = volume.read(file, 1000, &mut read) == Ok(BYTES);
            let one = read.iter().all(|byte| *byte == read[0]);
            if !(whole && one) {
                over.store(true, Ordering::Release);
                panic!("a mix of two writes");
            }
            seen.insert(read[0]);
            reads += 1;
        }
        over.store(true, Ordering::Release);
    });
}

#[test]
fn s05_appends_never_overlap() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    std::thread::scope(|scope| {
        for thread in 1..=4 {
            let volume = &volume;
            scope.spawn(move || {
                for _ in 0..300 {
                    assert_eq!(volume.append(file, &[thread; 777]).unwrap().1, 777);
                }
            });
        }
    });
    let mut all = vec![0; 4 * 300 * 777];
    assert_eq!(volume.read(file, 0, &mut all), Ok(all.len()));
    assert_eq!(volume.size_bytes(file), Ok(all.len() as u64));
    for record in all.chunks(777) {
        assert!(record[0] > 0 && record.iter().all(|byte| *byte == record[0]));
    }
}

#[test]
fn s20_access_times_change_by_request_only() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    volume.write(file, 0, b"data").unwrap();
    let change = AttributeChange {
        atime: Some(TimeChange::At(1)),
        ..AttributeChange::default()
    };
    for ino in [file.ino(), ROOT] {
        volume.set_attributes(ino, &change).unwrap();
    }
    volume.read(file, 0, &mut [0; 4]).unwrap();
    names(&volume, ROOT);
    for ino in [file.ino(), ROOT] {
        assert_eq!(volume.attributes(ino).unwrap().atime_ns, 1);
    }
}

#[test]
fn s21_times_are_of_the_kernels_tick_unless_somebody_looked() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    let (mut last_ns, mut exact) = (0, 0);
    for round in 0..200 {
        let before = coarse_now_ns();
        volume.write(file, 0, b"x").unwrap();
        let after = coarse_now_ns();
        // Of what is not looked at, the second has the time of the tick, or that of the first.
        volume.write(file, 1, b"y").unwrap();
        let attributes = volume.attributes(file.ino()).unwrap();
        volume.note_times_shown(file.ino());
        assert!(attributes.mtime_ns > last_ns, "{round}");
        let now = egeria_media::clock::now_ns(libc::CLOCK_REALTIME);
        assert!((before..=now).contains(&attributes.mtime_ns));
        assert_eq!(attributes.ctime_ns, attributes.mtime_ns);
        exact += u32::from(before == after && attributes.mtime_ns == before);
        last_ns = attributes.mtime_ns;
        if round % 20 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
    assert!(exact > 0, "no time of the tick");
}

#[test]
fn s22_set_times_are_kept_to_the_nanosecond_from_1677_to_2262() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let ino = open_new(&volume, b"file").ino();
    for time_ns in [i64::MIN, -1, 0, 1_234_567_890_123_456_789, i64::MAX] {
        let change = AttributeChange {
            atime: Some(TimeChange::At(time_ns)),
            mtime: Some(TimeChange::At(time_ns)),
            ..AttributeChange::default()
        };
        volume.set_attributes(ino, &change).unwrap();
        let attributes = volume.attributes(ino).unwrap();
        assert_eq!(
            (attributes.atime_ns, attributes.mtime_ns),
            (time_ns, time_ns)
        );
    }
}

#[test]
fn s23_a_directory_has_the_size_of_its_log() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let directory = volume.create(ROOT, b"d", &DIRECTORY).unwrap();
    let facts =
        |attributes: Attributes| (attributes.size_bytes, attributes.blocks, attributes.nlink);
    assert_eq!(facts(directory), (4096, 1, 2));
    volume.create(directory.ino, b"sub", &DIRECTORY).unwrap();
    assert_eq!(
        facts(volume.attributes(directory.ino).unwrap()),
        (4096, 1, 3)
    );
    // 63 lines to a page; a name of this length takes one.
    for at in 0..63 {
        volume
            .create(directory.ino, &[b'a' + at; 3], &FILE)
            .unwrap();
    }
    assert_eq!(
        facts(volume.attributes(directory.ino).unwrap()),
        (8192, 2, 3)
    );
    volume.remove_directory(directory.ino, b"sub").unwrap();
    assert_eq!(
        facts(volume.attributes(directory.ino).unwrap()),
        (8192, 2, 2)
    );
}

#[test]
fn s24_names_that_stay_are_listed_exactly_once() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let directory = volume.create(ROOT, b"d", &DIRECTORY).unwrap().ino;
    let file = volume.create(ROOT, b"f", &FILE).unwrap().ino;
    let name = |kind: char, at: u32| format!("{kind}{at}").into_bytes();
    for at in 0..1000 {
        volume.link(file, directory, &name('s', at)).unwrap();
        volume.link(file, directory, &name('g', at)).unwrap();
    }
    let (mut cookie, mut seen, mut round) = (0, Vec::new(), 0);
    loop {
        let mut batch = Vec::new();
        let mut emit = |entry: &DirectoryEntry<'_>| {
            batch.push((entry.cookie, entry.name.to_vec()));
            batch.len() < 100
        };
        volume.read_directory(directory, cookie, &mut emit).unwrap();
        let Some(last) = batch.last() else { break };
        // The entry refused last was not consumed.
        let consumed = if batch.len() < 100 { batch.len() } else { 99 };
        cookie = batch[..consumed].last().unwrap_or(last).0;
        seen.extend(batch.into_iter().take(consumed).map(|(_, name)| name));
        // Enough changes between batches that the log is compacted under the reader.
        for at in round * 40..(round * 40 + 40).min(1000) {
            volume.unlink(directory, &name('g', at)).unwrap();
        }
        for at in 0..30 {
            volume.link(file, directory, &name('x', at)).unwrap();
            volume.unlink(directory, &name('x', at)).unwrap();
        }
        round += 1;
    }
    assert_eq!(seen[..2], [b".".to_vec(), b"..".to_vec()]);
    let stayed: Vec<_> = seen.iter().filter(|name| name[0] == b's').collect();
    assert_eq!(stayed.len(), 1000);
    assert_eq!(stayed.iter().collect::<BTreeSet<_>>().len(), 1000);
}

/// Then the table is read instead of the log.
#[test]
fn s24_few_names_among_many_that_went_are_listed_in_order() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let directory = volume.create(ROOT, b"d", &DIRECTORY).unwrap().ino;
    let file = volume.create(ROOT, b"f", &FILE).unwrap().ino;
    let from = |cookie: u64, end: u64| {
        let mut found = Vec::new();
        let mut emit = |entry: &DirectoryEntry<'_>| {
            found.push((entry.cookie, entry.ino, entry.name.to_vec()));
            true
        };
        volume
            .read_directory_until(directory, cookie, end, &mut emit)
            .unwrap();
        found
    };
    let mut there = Vec::new();
    for at in 0..200u32 {
        let name = format!("name{at}").into_bytes();
        volume.link(file, directory, &name).unwrap();
        match at % 16 {
            0 => there.push(name),
            _ => volume.unlink(directory, &name).unwrap(),
        }
        let all = from(0, u64::MAX);
        let names: Vec<_> = all.iter().skip(2).map(|found| found.2.clone()).collect();
        assert_eq!(names, there);
        assert!(all.iter().skip(2).all(|found| found.1 == file));
        assert!(all.is_sorted_by_key(|found| found.0));
        let middle = all[all.len() / 2].0;
        let (behind, before) = (from(middle, u64::MAX), from(0, middle + 1));
        assert_eq!([before, behind].concat(), all);
    }
}

#[test]
fn s25_a_removed_directory_is_empty_and_takes_no_names() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let directory = volume.create(ROOT, b"d", &DIRECTORY).unwrap().ino;
    volume.open(directory, None).unwrap();
    volume.remove_directory(ROOT, b"d").unwrap();
    assert!(names(&volume, directory).is_empty(), "not even . and ..");
    assert_eq!(failed(volume.create(directory, b"f", &FILE)), libc::ENOENT);
    assert_eq!(failed(volume.lookup(directory, b"..")), libc::ENOENT);
    volume.close(directory);
    assert_eq!(failed(volume.attributes(directory)), libc::ESTALE);
}

#[test]
fn s26_rename_finds_errors_in_this_order() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let make = |parent, name: &[u8], new| volume.create(parent, name, new).unwrap().ino;
    let (d, file) = (make(ROOT, b"d", &DIRECTORY), make(ROOT, b"file", &FILE));
    let e = make(d, b"e", &DIRECTORY);
    make(e, b"inner", &FILE);
    make(ROOT, b"empty", &DIRECTORY);
    volume.link(file, ROOT, b"twin").unwrap();
    use RenameMode::*;
    let long = [b'x'; 256];
    for (from, to, mode, error) in [
        // Names come before directories, and these before what they hold.
        ((file, &b"."[..]), (ROOT, &b"b"[..]), Replace, libc::EBUSY),
        ((file, b"a"), (ROOT, b".."), Replace, libc::EBUSY),
        ((file, b"a"), (ROOT, &long), Replace, libc::ENAMETOOLONG),
        ((file, b""), (ROOT, b"b"), Replace, libc::ENOENT),
        ((file, b"a"), (ROOT, b"x/y"), Replace, libc::EINVAL),
        ((file, b"a"), (ROOT, b"b"), Replace, libc::ENOTDIR),
        ((ROOT, b"none"), (d, b"e"), NoReplace, libc::ENOENT),
        ((ROOT, b"d"), (e, b"inner"), NoReplace, libc::EEXIST),
        ((ROOT, b"d"), (e, b"none"), Exchange, libc::ENOENT),
        ((ROOT, b"d"), (e, b"inner"), Replace, libc::EINVAL),
        ((ROOT, b"d"), (e, b"inner"), Exchange, libc::EINVAL),
        ((e, b"inner"), (ROOT, b"d"), Replace, libc::ENOTEMPTY),
        ((e, b"inner"), (ROOT, b"d"), Exchange, libc::EINVAL),
        ((ROOT, b"file"), (d, b"e"), Replace, libc::EISDIR),
        ((ROOT, b"empty"), (e, b"inner"), Replace, libc::ENOTDIR),
        ((ROOT, b"empty"), (d, b"e"), Replace, libc::ENOTEMPTY),
    ] {
        let outcome = volume.rename(from.0, from.1, to.0, to.1, mode);
        assert_eq!(outcome, Err(Errno(error)), "{from:?} {to:?} {mode:?}");
    }
    // Two names of one file: success, and both stay.
    for mode in [Replace, Exchange] {
        volume.rename(ROOT, b"file", ROOT, b"twin", mode).unwrap();
        assert_eq!(volume.attributes(file).unwrap().nlink, 2);
    }
}

#[test]
fn s27_a_file_without_a_name_lives_while_open_and_can_be_named() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let made = volume.create_unnamed(ROOT, &FILE).unwrap();
    let file = volume.open(made.ino, Some(made.generation)).unwrap();
    volume.write(file, 0, b"data").unwrap();
    volume.link(made.ino, ROOT, b"named").unwrap();
    volume.close(made.ino);
    volume.close(made.ino);
    assert_eq!(volume.lookup(ROOT, b"named").unwrap().size_bytes, 4);
    let gone = volume.create_unnamed(ROOT, &FILE).unwrap().ino;
    volume.close(gone);
    assert_eq!(failed(volume.attributes(gone)), libc::ESTALE);
}

#[test]
fn s28_a_read_only_attach_refuses_changes_but_recovers() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    volume.write(file, 0, b"data").unwrap();
    drop(volume);
    let (mode, options) = (AttachMode::ReadOnly, AttachOptions::default());
    let line = || std::fs::read(&scratch.pools[0]).unwrap()[4 * BLOCK..4 * BLOCK + LINE].to_vec();
    let before = line();
    let volume = Volume::attach(&scratch.pools[0], mode, &options).unwrap();
    assert_ne!(
        line(),
        before,
        "the session is written to pool 0 all the same"
    );
    let found = volume.lookup(ROOT, b"file").unwrap();
    let file = volume.open(found.ino, None).unwrap();
    assert_eq!(volume.read(file, 0, &mut [0; 9]), Ok(4));
    let (any, replace) = (XattrMode::Any, RenameMode::Replace);
    let change = AttributeChange::default();
    for outcome in [
        volume.write(file, 0, b"x").map(drop),
        volume.append(file, b"x").map(drop),
        volume.create(ROOT, b"new", &FILE).map(drop),
        volume.create_unnamed(ROOT, &FILE).map(drop),
        volume.symlink(ROOT, b"new", b"x", 0, 0).map(drop),
        volume.link(found.ino, ROOT, b"new").map(drop),
        volume.unlink(ROOT, b"file"),
        volume.remove_directory(ROOT, b"file"),
        volume.rename(ROOT, b"file", ROOT, b"new", replace),
        volume.set_attributes(found.ino, &change).map(drop),
        volume.set_xattr(found.ino, b"user.a", b"", any),
        volume.remove_xattr(found.ino, b"user.a"),
        volume.allocate(file, 0, 1, AllocateMode::Extend),
    ] {
        assert_eq!(outcome, Err(Errno(libc::EROFS)));
    }
}

#[test]
fn s29_pools_in_dram_say_that_they_do_not_survive_power_loss() {
    let scratch = Scratch::new(2, 16 << 20);
    for pool in scratch.attach().pools() {
        assert_eq!(pool.persistence(), Persistence::Volatile);
    }
}

#[test]
fn s34_pools_and_sessions_are_their_makers_alone() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new(2, 16 << 20);
    let volume = scratch.attach();
    let sessions = segments(volume.uuid());
    assert_eq!(sessions.len(), 1);
    for path in sessions.iter().chain(&scratch.pools) {
        let mode = std::fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[test]
fn s35_old_bytes_of_blocks_never_show() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let read_is_zero = |file: FileReference, from: u64, to: u64| {
        let mut read = vec![1; (to - from) as usize];
        assert_eq!(volume.read(file, from, &mut read), Ok(read.len()));
        assert!(read.iter().all(|byte| *byte == 0), "{from} to {to}");
    };
    // Every free block holds something of somebody.
    let secret = open_new(&volume, b"secret");
    while volume.append(secret, &[0xAA; 4096]).is_ok() {}
    volume.close(secret.ino());
    volume.unlink(ROOT, b"secret").unwrap();
    let file = open_new(&volume, b"file");
    volume.write(file, 5000, b"x").unwrap();
    read_is_zero(file, 0, 5000);
    volume.append(file, b"y").unwrap();
    volume.write(file, 6000, b"z").unwrap();
    read_is_zero(file, 5002, 6000);
    volume
        .allocate(file, 8192, 16_384, AllocateMode::Extend)
        .unwrap();
    read_is_zero(file, 6001, 24_576);
    volume.write(file, 10_000, b"in reserved blocks").unwrap();
    read_is_zero(file, 8192, 10_000);
    read_is_zero(file, 10_018, 24_576);
    // What was cut off does not come back.
    let cut = open_new(&volume, b"cut");
    for regrow in [0, 1, 2] {
        volume.write(cut, 0, &[0xBB; 10_000]).unwrap();
        let size = |bytes| AttributeChange {
            size_bytes: Some(bytes),
            ..AttributeChange::default()
        };
        volume.set_attributes(cut.ino(), &size(100)).unwrap();
        match regrow {
            0 => drop(volume.set_attributes(cut.ino(), &size(10_000)).is_ok()),
            1 => assert_eq!(volume.write(cut, 9_999, b"\0"), Ok(1)),
            _ => volume
                .allocate(cut, 0, 10_000, AllocateMode::Extend)
                .unwrap(),
        }
        read_is_zero(cut, 100, 10_000);
    }
}
