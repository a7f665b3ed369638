//! Adding, draining and removing pools, and upgrading the format, on files as commands do.

use crate::common::*;
use egeria_engine::format::*;
use egeria_engine::*;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ROOT: InodeNumber = InodeNumber::ROOT;
const MIB: u64 = 1 << 20;

fn request(scratch: &Scratch, name: &str, node: u16, bytes: u64) -> PoolRequest {
    PoolRequest {
        node,
        path: scratch.directory.path().join(name),
        bytes: Some(bytes),
    }
}

fn add(scratch: &Scratch, request: &PoolRequest) -> Result<AddedPool, VolumeError> {
    add_pool(&scratch.pools[0], request, false)
}

/// The error of what must be refused, which is one line with these words.
#[track_caller]
fn refused<T>(outcome: Result<T, VolumeError>, errno: i32, words: &str) {
    let error = outcome.err().expect("it is refused");
    assert_eq!(error.errno, errno, "{error}");
    let line = error.to_string();
    assert!(line.contains(words) && !line.contains('\n'), "{line}");
    assert!(line.contains(';'), "no remedy: {line}");
}

fn all(_: DrainProgress) -> bool {
    true
}

/// Bytes of a file on each pool.
fn bytes_on(volume: &Volume, ino: InodeNumber) -> [u64; MAX_POOLS] {
    let mut bytes = [0; MAX_POOLS];
    for extent in volume.extents(ino).unwrap() {
        bytes[usize::from(extent.pool)] += extent.length_bytes;
    }
    bytes
}

fn content_of(volume: &Volume, name: &[u8]) -> Vec<u8> {
    let ino = volume.lookup(ROOT, name).unwrap().ino;
    let file = volume.open(ino, None).unwrap();
    let mut bytes = vec![0; volume.size_bytes(file).unwrap() as usize];
    assert_eq!(volume.read(file, 0, &mut bytes), Ok(bytes.len()));
    volume.close(ino);
    bytes
}

/// A file of bytes that differ from block to block, and from file to file.
fn write_file(volume: &Volume, name: &[u8], bytes: usize) -> (InodeNumber, Vec<u8>) {
    let content: Vec<u8> = (0..bytes)
        .map(|at| (at / 4096 * 7 + at + name.len()) as u8)
        .collect();
    let made = volume.create_open(ROOT, name, &FILE).unwrap();
    let file = volume.open(made.ino, None).unwrap();
    assert_eq!(volume.write(file, 0, &content), Ok(bytes));
    volume.close(made.ino);
    volume.close(made.ino);
    (made.ino, content)
}

#[test]
fn an_added_pool_takes_what_no_longer_fits() {
    let scratch = Scratch::new(1, 8 * MIB);
    let volume = scratch.attach();
    let (_, before) = write_file(&volume, b"before", 3 << 20);
    drop(volume);
    let new = request(&scratch, "new", 1, 16 * MIB);
    let added = add(&scratch, &new).unwrap();
    assert_eq!((added.pool, added.blocks), (1, 4096));
    let volume = scratch.attach();
    assert_eq!(volume.pool_nodes(), [0, 1]);
    let (ino, large) = write_file(&volume, b"large", 12 << 20);
    assert!(bytes_on(&volume, ino)[1] > 8 << 20);
    drop(volume);
    // Any pool names the volume.
    let volume = Volume::attach(
        &new.path,
        AttachMode::CreateOrJoin,
        &AttachOptions::default(),
    );
    let volume = volume.unwrap();
    assert!(content_of(&volume, b"before") == before);
    assert!(content_of(&volume, b"large") == large);
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn a_pool_that_cannot_be_added_is_refused() {
    let scratch = Scratch::new(2, 8 * MIB);
    let other = Scratch::new(1, 8 * MIB);
    let named = |path: &PathBuf| PoolRequest {
        node: 1,
        path: path.clone(),
        bytes: None,
    };
    let own = add(&scratch, &named(&scratch.pools[1]));
    refused(own, libc::EEXIST, "is a pool of this volume already");
    let link = scratch.directory.path().join("link");
    std::os::unix::fs::symlink(&scratch.pools[1], &link).unwrap();
    let own = add(&scratch, &named(&link));
    refused(own, libc::EEXIST, "is a pool of this volume already");
    let others = add(&scratch, &named(&other.pools[0]));
    refused(others, libc::EEXIST, "--force to destroy that volume");
    let small = request(&scratch, "small", 1, 4 * MIB);
    refused(add(&scratch, &small), libc::EINVAL, "make it larger");
    assert!(!small.path.exists());
    let long = request(&scratch, &"n".repeat(250), 1, 8 * MIB);
    let deep = PoolRequest {
        path: scratch
            .directory
            .path()
            .join("d".repeat(200))
            .join("e".repeat(250)),
        ..long
    };
    std::fs::create_dir(deep.path.parent().unwrap()).unwrap();
    refused(
        add(&scratch, &deep),
        libc::ENAMETOOLONG,
        "use a shorter one",
    );
    assert!(!deep.path.exists());
    let volume = scratch.attach();
    let new = request(&scratch, "new", 1, 8 * MIB);
    refused(add(&scratch, &new), libc::EBUSY, "is attached");
    assert!(!new.path.exists());
    drop(volume);
    scratch.assert_clean();
    other.assert_clean();
}

#[test]
fn a_seventeenth_pool_is_refused() {
    let scratch = Scratch::new(15, 8 * MIB);
    add(&scratch, &request(&scratch, "p16", 15, 8 * MIB)).unwrap();
    let more = add(&scratch, &request(&scratch, "p17", 16, 8 * MIB));
    refused(more, libc::EINVAL, "has 16 pools");
    assert_eq!(scratch.attach().pools().len(), 16);
}

/// The pool was prepared, and the machine stopped before the list of pools was in force.
#[test]
fn an_interrupted_addition_leaves_the_volume_as_it_was() {
    let scratch = Scratch::new(1, 8 * MIB);
    let before = std::fs::read(&scratch.pools[0]).unwrap();
    let new = request(&scratch, "new", 1, 8 * MIB);
    add(&scratch, &new).unwrap();
    std::fs::write(&scratch.pools[0], &before).unwrap();
    assert_eq!(scratch.attach().pools().len(), 1);
    let named = Volume::attach(
        &new.path,
        AttachMode::CreateOrJoin,
        &AttachOptions::default(),
    );
    refused(named.map(drop), libc::EINVAL, "run `egeria pool add` again");
    assert_eq!(add(&scratch, &new).unwrap().pool, 1);
    assert_eq!(scratch.attach().pools().len(), 2);
    scratch.assert_clean();
}

#[test]
fn an_old_copy_of_pool_0_is_noticed() {
    let scratch = Scratch::new(2, 8 * MIB);
    let before = std::fs::read(&scratch.pools[0]).unwrap();
    add(&scratch, &request(&scratch, "new", 1, 8 * MIB)).unwrap();
    drop(scratch.attach());
    std::fs::write(&scratch.pools[0], &before).unwrap();
    let tried = Volume::attach(
        &scratch.pools[0],
        AttachMode::CreateOrJoin,
        &AttachOptions::default(),
    );
    refused(tried.map(drop), libc::EIO, "may be an old copy");
}

#[test]
fn older_formats_are_upgraded_in_place() {
    for version in [3, 4, 5] {
        let scratch = Scratch::new(2, 16 * MIB);
        scratch.age(version);
        let volume = scratch.attach();
        assert_eq!(volume.format_version(), version);
        let (ino, content) = write_file(&volume, b"file", 100_000);
        let in_use = upgrade_volume(&scratch.pools[1]);
        refused(in_use, libc::EBUSY, "is attached");
        drop(volume);
        let new = request(&scratch, "new", 1, 8 * MIB);
        refused(add(&scratch, &new), libc::EPROTO, "`egeria upgrade");
        let upgraded = upgrade_volume(&scratch.pools[1]).unwrap();
        assert_eq!((upgraded.from, upgraded.to), (version, FORMAT_VERSION));
        let again = upgrade_volume(&scratch.pools[0]).unwrap();
        assert_eq!((again.from, again.to), (FORMAT_VERSION, FORMAT_VERSION));
        let volume = scratch.attach();
        assert_eq!(volume.format_version(), FORMAT_VERSION);
        assert!(content_of(&volume, b"file") == content);
        assert_eq!(volume.lookup(ROOT, b"file").unwrap().ino, ino);
        volume
            .rename(ROOT, b"file", ROOT, b"moved", RenameMode::Replace)
            .unwrap();
        drop(volume);
        scratch.assert_clean();
    }
}

#[test]
fn a_format_without_a_secret_is_not_upgraded() {
    let scratch = Scratch::new(1, 8 * MIB);
    scratch.age(2);
    let tried = upgrade_volume(&scratch.pools[0]);
    refused(tried, libc::EPROTO, "copy its files to a new volume");
}

#[test]
fn a_newer_format_is_refused_and_not_downgraded() {
    use std::os::unix::fs::FileExt;
    let scratch = Scratch::new(1, 8 * MIB);
    let file = std::fs::File::options()
        .write(true)
        .open(&scratch.pools[0])
        .unwrap();
    let mut bytes = std::fs::read(&scratch.pools[0]).unwrap()[..SUPERBLOCK_BYTES].to_vec();
    bytes[8..12].copy_from_slice(&(FORMAT_VERSION + 1).to_le_bytes());
    let crc = checksum::crc32c(&bytes[..SUPERBLOCK_BYTES - 4]);
    bytes[SUPERBLOCK_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    for copy in SUPERBLOCK_COPIES {
        file.write_all_at(&bytes, copy * BLOCK as u64).unwrap();
    }
    let tried = upgrade_volume(&scratch.pools[0]);
    refused(tried, libc::EPROTO, "volumes cannot be downgraded");
}

/// Files of all kinds, as a drain has to move them.
fn fill_with_all_kinds(volume: &Volume) -> Vec<(&'static [u8], Vec<u8>)> {
    let mut files = Vec::new();
    let sizes: [(&[u8], usize); 3] = [(b"small", 10), (b"middle", 300_000), (b"large", 3 << 20)];
    for (name, bytes) in sizes {
        files.push((name, write_file(volume, name, bytes).1));
    }
    let directory = volume.create(ROOT, b"sums", &DIRECTORY).unwrap().ino;
    volume
        .set_xattr(
            directory,
            b"user.egeria.checksum",
            b"crc32c",
            XattrMode::Any,
        )
        .unwrap();
    let made = volume.create_open(directory, b"file", &FILE).unwrap();
    let file = volume.open(made.ino, None).unwrap();
    volume.write(file, 0, &[9; 40_000]).unwrap();
    volume
        .allocate(file, 1 << 20, 1 << 20, AllocateMode::KeepSize)
        .unwrap();
    volume.close(made.ino);
    volume.close(made.ino);
    let striped = volume.create(ROOT, b"striped", &FILE).unwrap().ino;
    volume
        .set_xattr(
            striped,
            b"user.egeria.layout",
            b"striped:4096",
            XattrMode::Any,
        )
        .unwrap();
    let file = volume.open(striped, None).unwrap();
    let content: Vec<u8> = (0..500_000).map(|at| (at / 3) as u8).collect();
    volume.write(file, 0, &content).unwrap();
    volume.close(striped);
    files.push((b"striped", content));
    volume.symlink(ROOT, b"link", &[b'x'; 300], 0, 0).unwrap();
    for number in 0..300 {
        volume
            .create(ROOT, format!("n{number}").as_bytes(), &FILE)
            .unwrap();
    }
    files
}

/// Names with numbers, generations and sizes of the root.
fn listing(volume: &Volume) -> Vec<(Vec<u8>, Attributes)> {
    let mut names = Vec::new();
    volume
        .read_directory(ROOT, 0, &mut |entry| {
            names.push(entry.name.to_vec());
            true
        })
        .unwrap();
    names.sort();
    let of = |name: Vec<u8>| {
        let mut attributes = volume.lookup(ROOT, &name).unwrap();
        if attributes.kind() == FileKind::Directory {
            // Of directories both follow the log, which is rewritten.
            (attributes.size_bytes, attributes.blocks) = (0, 0);
        }
        (name, attributes)
    };
    names.into_iter().map(of).collect()
}

#[test]
fn a_pool_is_drained_and_removed_and_inodes_keep_their_numbers() {
    let scratch = Scratch::new(3, 16 * MIB);
    let volume = scratch.attach();
    volume.set_allocation(AllocationPolicy::Pool(2));
    let files = fill_with_all_kinds(&volume);
    volume.set_allocation(AllocationPolicy::Local);
    assert!(volume.space(Some(2)).inodes - volume.space(Some(2)).free_inodes > 300);
    let before = listing(&volume);
    let report = volume.drain(2, Unreadable::default(), &mut all).unwrap();
    assert!(
        report.is_drained() && report.moved_blocks > 1000,
        "{report:?}"
    );
    for (_, attributes) in listing(&volume) {
        assert_eq!(bytes_on(&volume, attributes.ino)[2], 0);
    }
    assert_eq!(listing(&volume), before);
    // No new data goes there, in this session.
    volume.set_allocation(AllocationPolicy::Pool(2));
    let (ino, _) = write_file(&volume, b"later", 100_000);
    assert_eq!(bytes_on(&volume, ino)[2], 0);
    volume.unlink(ROOT, b"later").unwrap();
    drop(volume);
    scratch.assert_clean();
    let removed = remove_pool(&scratch.pools[2], &mut all).unwrap();
    assert_eq!(removed.pool, 2);
    scratch.assert_clean();
    let tried = Volume::attach(
        &scratch.pools[2],
        AttachMode::CreateOrJoin,
        &AttachOptions::default(),
    );
    refused(tried.map(drop), libc::EINVAL, "not an Egeria pool");
    std::fs::remove_file(&scratch.pools[2]).unwrap();
    let volume = scratch.attach();
    assert!(!volume.has_pool(2));
    let now = listing(&volume);
    let without_root_times = |all: Vec<(Vec<u8>, Attributes)>| -> Vec<_> {
        all.into_iter()
            .filter(|(name, _)| name != b"." && name != b"..")
            .collect()
    };
    assert_eq!(without_root_times(now), without_root_times(before));
    for (name, content) in &files {
        assert!(content_of(&volume, name) == *content);
    }
    assert_eq!(
        volume.read_link(volume.lookup(ROOT, b"link").unwrap().ino),
        Ok(vec![b'x'; 300])
    );
    // Inodes with records in another pool are changed, deleted, and their numbers used again.
    for number in 0..300 {
        volume
            .unlink(ROOT, format!("n{number}").as_bytes())
            .unwrap();
    }
    volume.set_allocation(AllocationPolicy::Striped);
    for number in 0..600 {
        write_file(&volume, format!("m{number}").as_bytes(), 5000);
    }
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn the_home_of_a_removed_pool_can_be_removed_too() {
    let scratch = Scratch::new(3, 16 * MIB);
    let volume = scratch.attach();
    let mut files = Vec::new();
    for pool in [2, 1, 0] {
        volume.set_allocation(AllocationPolicy::Pool(pool));
        files.push(write_file(&volume, format!("on{pool}").as_bytes(), 200_000));
    }
    drop(volume);
    remove_pool(&scratch.pools[2], &mut all).unwrap();
    remove_pool(&scratch.pools[1], &mut all).unwrap();
    let volume = scratch.attach();
    for (name, (ino, content)) in [b"on2", b"on1", b"on0"].iter().zip(&files) {
        assert_eq!(volume.lookup(ROOT, *name).unwrap().ino, *ino);
        assert!(content_of(&volume, *name) == *content);
    }
    drop(volume);
    let added = add(&scratch, &request(&scratch, "new", 1, 8 * MIB)).unwrap();
    assert_eq!(added.pool, 3, "a removed pool's index is not given again");
    scratch.assert_clean();
}

#[test]
fn a_drain_that_does_not_fit_is_refused_before_it_begins() {
    let scratch = Scratch::new(2, 16 * MIB);
    let volume = scratch.attach();
    volume.set_allocation(AllocationPolicy::Pool(0));
    write_file(&volume, b"on0", 10 << 20);
    volume.set_allocation(AllocationPolicy::Pool(1));
    let (ino, _) = write_file(&volume, b"on1", 8 << 20);
    let before = bytes_on(&volume, ino);
    let tried = volume.drain(1, Unreadable::default(), &mut all);
    refused(tried, libc::ENOSPC, "and the other pools have");
    assert_eq!(bytes_on(&volume, ino), before);
    // It takes new data as before.
    let (ino, _) = write_file(&volume, b"more", 4096);
    assert_eq!(bytes_on(&volume, ino)[1], 4096);
    refused(
        volume.drain(0, Unreadable::default(), &mut all),
        libc::EINVAL,
        "which has the journal",
    );
    refused(
        volume.drain(7, Unreadable::default(), &mut all),
        libc::EINVAL,
        "has no pool 7",
    );
    let tried = remove_pool(&scratch.pools[1], &mut all);
    refused(tried, libc::EBUSY, "is attached");
    drop(volume);
    let tried = remove_pool(&scratch.pools[1], &mut all);
    refused(tried, libc::ENOSPC, "and the other pools have");
    scratch.assert_clean();
}

/// Where a block of a file is in its pool, bytes.
fn place_of(volume: &Volume, ino: InodeNumber, file_block: u64) -> Range<u64> {
    let at = file_block * BLOCK as u64;
    let extents = volume.extents(ino).unwrap();
    let holds = |extent: &&ExtentReport| {
        let from = extent.file_offset_bytes;
        (from..from + extent.length_bytes).contains(&at)
    };
    let extent = extents.iter().find(holds).unwrap();
    let from = extent.block * BLOCK as u64 + at - extent.file_offset_bytes;
    from..from + BLOCK as u64
}

#[test]
fn what_cannot_be_read_is_named_and_given_up() {
    let scratch = Scratch::new(2, 16 * MIB);
    let volume = scratch.attach();
    volume.set_allocation(AllocationPolicy::Pool(1));
    let (plain, mut content) = write_file(&volume, b"plain", 3 << 20);
    let (whole, whole_content) = write_file(&volume, b"whole", 1 << 20);
    let directory = volume.create(ROOT, b"checked", &DIRECTORY).unwrap().ino;
    set_checksums(&volume, directory, b"crc32c").unwrap();
    let made = volume.create_open(directory, b"file", &FILE).unwrap();
    let checked = volume.open(made.ino, None).unwrap();
    volume.write(checked, 0, &[7; 20 * BLOCK]).unwrap();
    // Half a sector's block, blocks of two commits, and one of a file with checksums.
    let mut bad = vec![place_of(&volume, plain, 700), place_of(&volume, plain, 3)];
    bad[1].start += 512;
    bad[1].end = bad[1].start + 512;
    bad.push(place_of(&volume, plain, 4));
    bad.push(place_of(&volume, made.ino, 9));
    let unreadable = || Unreadable {
        bad: bad.clone(),
        give_up: None,
    };

    let report = volume.drain(1, unreadable(), &mut all).unwrap();
    let left: Vec<InodeNumber> = report.left.iter().map(|(ino, _)| *ino).collect();
    assert_eq!(left, [plain, made.ino], "{report:?}");
    assert!(!report.is_drained() && report.moved_blocks > 256);
    assert_eq!(bytes_on(&volume, whole)[1], 0);
    assert!(content_of(&volume, b"plain") == content);

    let mut lost = Vec::new();
    let mut note = |range: LostRange| lost.push((range.path, range.bytes));
    let giving_up = Unreadable {
        give_up: Some(&mut note),
        ..unreadable()
    };
    let report = volume.drain(1, giving_up, &mut all).unwrap();
    assert!(report.is_drained(), "{report:?}");
    let block = BLOCK as u64;
    let expected = [
        ("/plain".to_owned(), 3 * block..5 * block),
        ("/plain".to_owned(), 700 * block..701 * block),
        ("/checked/file".to_owned(), 9 * block..10 * block),
    ];
    assert_eq!(lost, expected);
    for (_, range) in &expected[..2] {
        content[range.start as usize..range.end as usize].fill(0);
    }
    assert!(content_of(&volume, b"plain") == content);
    assert!(content_of(&volume, b"whole") == whole_content);
    let mut read = [0; BLOCK];
    assert_eq!(
        volume.read(checked, 9 * block, &mut read),
        Err(Errno(libc::EIO))
    );
    assert_eq!(volume.read(checked, 10 * block, &mut read), Ok(BLOCK));
    assert_eq!(volume.write(checked, 9 * block, &[8; BLOCK]), Ok(BLOCK));
    assert_eq!(volume.read(checked, 9 * block, &mut read), Ok(BLOCK));
    assert_eq!(read, [8; BLOCK]);
    volume.close(made.ino);
    volume.close(made.ino);
    drop(volume);
    remove_pool(&scratch.pools[1], &mut all).unwrap();
    scratch.assert_clean();
}

#[test]
fn a_stopped_drain_goes_on_and_can_be_ended() {
    let scratch = Scratch::new(2, 16 * MIB);
    let volume = scratch.attach();
    volume.set_allocation(AllocationPolicy::Pool(1));
    for number in 0..50 {
        write_file(&volume, format!("f{number}").as_bytes(), 20_000);
    }
    let mut inodes = 0;
    let stopped = volume.drain(1, Unreadable::default(), &mut |_| {
        inodes += 1;
        inodes < 20
    });
    let stopped = stopped.unwrap();
    assert!(stopped.is_stopped && !stopped.is_drained());
    assert!((50..300).contains(&stopped.moved_blocks), "{stopped:?}");
    let rest = volume.drain(1, Unreadable::default(), &mut all).unwrap();
    assert!(rest.is_drained() && rest.moved_blocks > 100, "{rest:?}");
    volume.end_drain(1);
    let (ino, _) = write_file(&volume, b"there", 4096);
    assert_eq!(bytes_on(&volume, ino)[1], 4096);
}

/// What writers of a drained volume do, until they are stopped; returns what their file has to hold.
fn keep_writing(volume: &Volume, name: &[u8], stop: &AtomicBool) -> Vec<u8> {
    let made = volume.create_open(ROOT, name, &FILE).unwrap();
    let file = volume.open(made.ino, None).unwrap();
    let mut content = vec![0; 1 << 20];
    let mut round = 0usize;
    while !stop.load(Ordering::Relaxed) || round < 50 {
        round += 1;
        let at = round * 37_123 % (content.len() - 30_000);
        let bytes = round * 997 % 30_000;
        content[at..at + bytes].fill(round as u8);
        assert_eq!(
            volume.write(file, at as u64, &content[at..at + bytes]),
            Ok(bytes)
        );
        let mut read = vec![0; bytes];
        volume.read(file, at as u64, &mut read).unwrap();
        assert!(read == content[at..at + bytes], "round {round}");
        let other = format!("{}-{}", String::from_utf8_lossy(name), round % 7);
        let _ = volume.unlink(ROOT, other.as_bytes());
        volume.create(ROOT, other.as_bytes(), &FILE).unwrap();
    }
    let size = volume.size_bytes(file).unwrap() as usize;
    volume.close(made.ino);
    volume.close(made.ino);
    content.truncate(size);
    content
}

#[test]
fn a_pool_is_drained_while_programs_write() {
    let scratch = Scratch::new(2, 64 * MIB);
    let volume = scratch.attach();
    volume.set_allocation(AllocationPolicy::Pool(1));
    for number in 0..40 {
        write_file(&volume, format!("f{number}").as_bytes(), 300_000);
    }
    let stop = &AtomicBool::new(false);
    let names: [&[u8]; 3] = [b"one", b"two", b"three"];
    let contents = std::thread::scope(|scope| {
        let writers = names.map(|name| {
            let volume = Arc::clone(&volume);
            scope.spawn(move || {
                let content = keep_writing(&volume, name, stop);
                volume.thread_exit();
                content
            })
        });
        let report = volume.drain(1, Unreadable::default(), &mut all).unwrap();
        let again = volume.drain(1, Unreadable::default(), &mut all).unwrap();
        stop.store(true, Ordering::Relaxed);
        assert!(report.left.is_empty() && again.left.is_empty());
        assert!(report.moved_blocks > 2500, "{report:?}");
        writers.map(|writer| writer.join().unwrap())
    });
    assert!(
        volume
            .drain(1, Unreadable::default(), &mut all)
            .unwrap()
            .is_drained()
    );
    for (name, attributes) in listing(&volume) {
        assert_eq!(bytes_on(&volume, attributes.ino)[1], 0, "{name:?}");
    }
    for (name, content) in names.iter().zip(&contents) {
        assert!(content_of(&volume, name) == *content);
    }
    drop(volume);
    scratch.assert_clean();
    remove_pool(&scratch.pools[1], &mut all).unwrap();
    scratch.assert_clean();
}

#[test]
fn the_words_for_a_full_volume_name_each_node() {
    let scratch = Scratch::new(2, 8 * MIB);
    let volume = scratch.attach();
    let file = filled_file(&volume, 0);
    while volume.append(file, &[1; 4096]).is_ok() {}
    let words = volume.space_left();
    let [first, second] = words.split(", ").collect::<Vec<_>>()[..] else {
        panic!("{words}");
    };
    assert!(
        first.starts_with("node 0 has ") && first.ends_with(" MiB left"),
        "{words}"
    );
    assert!(
        second.starts_with("node 1 has ") && second.contains(" of "),
        "{words}"
    );
}
