//! Corners that once went wrong, one small test each.

use crate::common::*;
use egeria_engine::failpoint::{Resource, with_failures};
use egeria_engine::*;
use egeria_harness::testing::pages_in_use;

const ROOT: InodeNumber = InodeNumber::ROOT;

#[test]
fn punching_inside_one_block_zeroes_only_that() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let ino = volume.create(ROOT, b"f", &FILE).unwrap().ino;
    let file = volume.open(ino, None).unwrap();
    volume.write(file, 0, &[7; 8192]).unwrap();
    volume
        .allocate(file, 5000, 100, AllocateMode::PunchHole)
        .unwrap();
    let mut read = [1; 8192];
    volume.read(file, 0, &mut read).unwrap();
    for (at, byte) in read.iter().enumerate() {
        assert_eq!(*byte == 0, (5000..5100).contains(&at), "{at}");
    }
}

#[test]
fn a_file_as_parent_of_a_rename_is_no_directory() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let ino = volume.create(ROOT, b"f", &FILE).unwrap().ino;
    let file = volume.open(ino, None).unwrap();
    for at in 0..20 {
        volume.write(file, at, b"bytes").unwrap();
    }
    let refused = Err(Errno(libc::ENOTDIR));
    assert_eq!(
        volume.rename(ROOT, b"f", ino, b"g", RenameMode::Replace),
        refused
    );
    assert_eq!(
        volume.rename(ino, b"g", ROOT, b"h", RenameMode::Replace),
        refused
    );
}

#[test]
fn times_after_growth_are_the_same_in_a_new_session() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let ino = volume.create(ROOT, b"f", &FILE).unwrap().ino;
    let file = volume.open(ino, None).unwrap();
    volume
        .allocate(file, 0, 10_000, AllocateMode::KeepSize)
        .unwrap();
    let tick = std::time::Duration::from_millis(20);
    std::thread::sleep(tick);
    volume
        .allocate(file, 0, 9_000, AllocateMode::Extend)
        .unwrap();
    let before = volume.attributes(ino).unwrap();
    assert!(before.mtime_ns > before.atime_ns);
    drop(volume);
    assert_eq!(scratch.attach().attributes(ino), Ok(before));
}

#[test]
fn writing_nothing_past_the_largest_offset_writes_nothing() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let ino = volume.create(ROOT, b"f", &FILE).unwrap().ino;
    let file = volume.open(ino, None).unwrap();
    let largest = i64::MAX as u64;
    for offset in [largest, largest + 1, u64::MAX] {
        assert_eq!(volume.write(file, offset, b""), Ok(0));
        assert_eq!(volume.write(file, offset, b"x"), Err(Errno(libc::EFBIG)));
    }
    assert_eq!(volume.write(file, largest - 1, b"xy"), Ok(1));
    assert_eq!(volume.append(file, b""), Ok((largest, 0)));
    assert_eq!(volume.append(file, b"x"), Err(Errno(libc::EFBIG)));
}

#[test]
fn a_read_across_the_end_of_a_file_touches_nothing_behind_it() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let ino = volume.create(ROOT, b"f", &FILE).unwrap().ino;
    let file = volume.open(ino, None).unwrap();
    volume.write(file, 0, &[7; 50_000]).unwrap();
    let last = 49_152;
    // Where the block lies is known by now, so the short way could be taken.
    for _ in 0..3 {
        let mut read = [1; 4096];
        assert_eq!(volume.read(file, last, &mut read).unwrap(), 848);
        assert_eq!(
            (&read[..848], &read[848..]),
            (&[7; 848][..], &[1; 3248][..])
        );
    }
}

#[test]
fn a_number_given_back_rests_and_is_used_again() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let numbers: Vec<InodeNumber> = (0..200)
        .map(|_| {
            let made = volume.create(ROOT, b"next", &FILE).unwrap();
            volume.unlink(ROOT, b"next").unwrap();
            made.ino
        })
        .collect();
    // One block of records is enough, and all of its numbers but the root's have their turn.
    let others = format::INODES_PER_BLOCK as usize - 1;
    for (turn, number) in numbers.iter().enumerate() {
        let before = numbers[..turn]
            .iter()
            .rposition(|earlier| earlier == number);
        let expected = turn.checked_sub(others);
        assert_eq!(before, expected, "{number:?} in turn {turn}");
    }
}

/// Each change of a name is noted in the log of what it means, too.
#[test]
fn names_that_change_all_the_time_take_no_more_space() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let made = |name: &[u8], new| volume.create(ROOT, name, new).unwrap().ino;
    let (file, directory) = (made(b"file", &FILE), made(b"directory", &DIRECTORY));
    made(b"other", &FILE);
    let rename = |from: &[u8], to: &[u8], mode| volume.rename(ROOT, from, ROOT, to, mode).unwrap();
    let used = || {
        let space = volume.space(None);
        space.blocks - space.free_blocks
    };
    let before = used();
    for turn in 0..3_000 {
        let (from, to): (&[u8], &[u8]) = match turn % 2 {
            0 => (b"directory", b"renamed"),
            _ => (b"renamed", b"directory"),
        };
        rename(from, to, RenameMode::Replace);
        rename(b"file", b"other", RenameMode::Exchange);
        volume.link(file, directory, b"link").unwrap();
        rename(b"file", b"moved", RenameMode::NoReplace);
        rename(b"moved", b"file", RenameMode::NoReplace);
        volume.unlink(directory, b"link").unwrap();
    }
    // Logs are compacted when they have a few pages.
    let after = used();
    assert!(after - before < 100, "{before} to {after} blocks");
}

/// Its table is then read again, for which there may be no memory.
#[test]
fn a_directory_that_is_compacted_when_it_moves_keeps_its_names() {
    // Then a log is compacted by the next change.
    const PAGES: u64 = 16;
    for refused in 0..4 {
        let scratch = Scratch::new(1, 16 << 20);
        let volume = scratch.attach();
        let made = |parent, name: &[u8], new| volume.create(parent, name, new).unwrap().ino;
        let [one, two, empty] =
            ["one", "two", "empty"].map(|name| made(ROOT, name.as_bytes(), &DIRECTORY));
        for directory in [one, two] {
            made(directory, b"name", &FILE);
            let mut pages = 1;
            while pages < PAGES {
                let nothing = AttributeChange::default();
                let change = || volume.set_attributes(directory, &nothing).map(drop);
                let (changed, taken) = with_failures(Resource::Blocks, 0..0, change);
                assert_eq!(changed, Ok(()));
                pages += taken;
            }
        }
        let rename = |from: &[u8], to: &[u8]| {
            let rename = || volume.rename(ROOT, from, ROOT, to, RenameMode::Replace);
            with_failures(Resource::SessionPages, refused..u64::MAX, rename).0
        };
        // What is not empty is not replaced, however little is known of it.
        let replaced = rename(b"empty", b"two").expect_err("it has a name");
        assert!([libc::ENOTEMPTY, libc::ENOMEM].contains(&replaced.0));
        let moved = match rename(b"one", b"moved") {
            Ok(()) => b"moved".as_slice(),
            Err(errno) => {
                assert_eq!(errno, Errno(libc::ENOMEM));
                b"one"
            }
        };
        let look = |attached: &Volume| {
            assert_eq!(attached.lookup(ROOT, moved).unwrap().ino, one);
            assert_eq!(attached.lookup(ROOT, b"two").unwrap().ino, two);
            assert_eq!(names(attached, empty).len(), 2);
            for directory in [one, two] {
                assert!(attached.lookup(directory, b"name").is_ok(), "{refused}");
            }
        };
        look(&volume);
        drop(volume);
        look(&scratch.attach());
    }
}

#[test]
fn who_goes_on_writing_has_pages_mapped_ahead() {
    const BLOCK: usize = 4096;
    let scratch = Scratch::new(1, 1 << 30);
    let volume = scratch.attach();
    let pool = volume.pools()[0].clone();
    let mapped_pages = || {
        let pages = pages_in_use(pool.base(), pool.blocks() as usize);
        pages.into_iter().filter(|is_in_use| *is_in_use).count()
    };
    let ino = volume.create(ROOT, b"f", &FILE).unwrap().ino;
    let file = volume.open(ino, None).unwrap();
    let before = mapped_pages();
    volume.write(file, 0, &[7; BLOCK]).unwrap();
    // Little is written: one page at a time.
    assert!(mapped_pages() < before + 8);
    for at in 1..200 {
        volume.write(file, at * BLOCK as u64, &[7; BLOCK]).unwrap();
    }
    assert!(mapped_pages() > before + 200 + 32);
}

/// Write pages back on a full volume, round after round, with checksums or without; another file has none of the space.
fn write_back_when_full(checksum: &[u8], rounds: u8) {
    const PAGES: usize = 64;
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    set_checksums(&volume, ROOT, checksum).unwrap();
    let new = |name| {
        let ino = volume.create(ROOT, name, &FILE).unwrap().ino;
        volume.open(ino, None).unwrap()
    };
    let (file, filler) = (new(b"file"), new(b"filler"));
    volume.write(file, 0, &[1; PAGES * 4096]).unwrap();
    // A hole in the middle of what comes back, which there is no block for.
    let mode = AllocateMode::PunchHole;
    volume.allocate(file, 8 * 4096, 4096, mode).unwrap();
    for bytes in [1 << 20, 4096] {
        while volume.append(filler, &vec![7; bytes]).is_ok() {}
    }
    for round in 0..rounds {
        let mut pages = vec![round; PAGES * 4096];
        let written = volume.write_back(file, 0, &pages);
        assert_eq!(written, Err(Errno(libc::ENOSPC)), "the hole");
        pages[8 * 4096..9 * 4096].fill(0);
        let mut read = vec![1; PAGES * 4096];
        assert_eq!(volume.read(file, 0, &mut read), Ok(read.len()));
        assert!(read == pages, "round {round}");
    }
    volume.close(filler.ino());
    // Something can still be removed.
    volume.unlink(ROOT, b"filler").unwrap();
    assert_eq!(volume.write_back(file, 0, &[9; PAGES * 4096]), Ok(()));
    volume.close(file.ino());
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn pages_of_written_blocks_come_back_to_a_full_volume() {
    write_back_when_full(b"off", 200);
}

/// Each needs a block and a line of the log from the reserve, which the log of a file that is compacted does not use up.
#[test]
fn pages_with_checksums_come_back_to_a_full_volume() {
    write_back_when_full(b"crc32c", 8);
}
