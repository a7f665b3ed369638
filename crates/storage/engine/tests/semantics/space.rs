//! Statements about space: what needs it, what is counted, what happens when there is none.

use super::{ROOT, commits, failed, open_new};
use crate::common::*;
use egeria_engine::format::*;
use egeria_engine::*;

/// Write to the file until nothing more goes, to the last block.
fn fill(volume: &Volume, file: FileReference) {
    for bytes in [1 << 20, 4096] {
        let data = vec![7; bytes];
        while volume.append(file, &data).is_ok() {}
    }
    assert_eq!(failed(volume.append(file, &[7; 4096])), libc::ENOSPC);
}

fn blocks(volume: &Volume, file: FileReference) -> u64 {
    volume.attributes(file.ino()).unwrap().blocks
}

/// Nothing free but single blocks: every second one of a file that fills the volume.
fn fragment(volume: &Volume) -> u64 {
    let file = open_new(volume, b"filler");
    fill(volume, file);
    let end = volume.size_bytes(file).unwrap() / BLOCK as u64;
    for block in (0..end).step_by(2) {
        let (at, mode) = (block * BLOCK as u64, AllocateMode::PunchHole);
        volume.allocate(file, at, BLOCK as u64, mode).unwrap();
    }
    end / 2
}

#[test]
fn s03_a_write_into_fragmented_space_is_several_commits() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    assert!(fragment(&volume) > 400);
    let file = open_new(&volume, b"file");
    let data: Vec<u8> = (0..200 * BLOCK).map(|at| (at / 100) as u8).collect();
    let write = || assert_eq!(volume.write(file, 0, &data), Ok(data.len()));
    // 56 runs to a commit, so that log pages and edges find room beside them.
    let commits = commits(&volume, file, write);
    assert!((2..=4).contains(&commits), "{commits}");
    let mut read = vec![0; data.len()];
    volume.read(file, 0, &mut read).unwrap();
    assert!(read == data);
}

/// Between the commits of a long append others may append: it then stops short, and overwrites nobody.
#[test]
fn s05_appends_into_fragmented_space_never_overlap() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    fragment(&volume);
    // Whether two meet between commits is chance; in twenty rounds they do.
    for _ in 0..20 {
        let file = open_new(&volume, b"file");
        append_from_threads(&volume, file);
        volume.unlink(ROOT, b"file").unwrap();
        volume.close(file.ino());
    }
}

fn append_from_threads(volume: &Volume, file: FileReference) {
    let start = &std::sync::Barrier::new(4);
    let append = |byte: u8| -> Vec<(u64, usize, u8)> {
        start.wait();
        (0..3)
            .map(|_| volume.append(file, &vec![byte; 60 * BLOCK]).unwrap())
            .map(|(at, bytes)| (at, bytes, byte))
            .collect()
    };
    let mut landed = std::thread::scope(|scope| {
        let threads = [1, 2, 3, 4].map(|byte| scope.spawn(move || append(byte)));
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    landed.sort_unstable();
    let mut end = 0;
    for (at, bytes, byte) in landed {
        assert_eq!(at, end, "no gap and no overlap");
        let mut read = vec![0; bytes];
        assert_eq!(volume.read(file, at, &mut read), Ok(bytes));
        assert!(read.iter().all(|read| *read == byte), "{byte} at {at}");
        end = at + bytes as u64;
    }
    assert_eq!(volume.size_bytes(file), Ok(end));
}

#[test]
fn s06_overwriting_needs_free_space() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    fill(&volume, file);
    for (offset, bytes) in [(0, 4096), (4096, 1), (8000, 10_000)] {
        let outcome = volume.write(file, offset, &vec![8; bytes]);
        assert_eq!(failed(outcome), libc::ENOSPC, "{bytes} at {offset}");
    }
    let mut read = vec![0; 20_000];
    assert_eq!(volume.read(file, 0, &mut read), Ok(20_000));
    assert!(read.iter().all(|byte| *byte == 7), "what was there stays");
}

#[test]
fn s07_a_full_volume_can_be_emptied() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    for name in [b"a", b"b", b"c"] {
        volume.create(ROOT, name, &DIRECTORY).unwrap();
    }
    let small = open_new(&volume, b"small");
    volume.write(small, 0, &[1; 100_000]).unwrap();
    let file = open_new(&volume, b"file");
    fill(&volume, file);
    assert!(volume.space(None).free_blocks < 8, "statfs says full");
    let change = AttributeChange {
        size_bytes: Some(10),
        ..AttributeChange::default()
    };
    volume.set_attributes(small.ino(), &change).unwrap();
    volume.remove_directory(ROOT, b"a").unwrap();
    let mode = AllocateMode::PunchHole;
    volume.allocate(file, 0, 1 << 20, mode).unwrap();
    volume.unlink(ROOT, b"file").unwrap();
    volume.close(file.ino());
    let again = open_new(&volume, b"again");
    assert_eq!(volume.write(again, 0, &[2; 1 << 20]), Ok(1 << 20));
}

#[test]
fn s08_a_write_that_does_not_fit_is_short_then_enospc() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    let data = vec![5; 20 << 20];
    let written = volume.write(file, 0, &data).unwrap();
    assert!((1 << 20..data.len()).contains(&written), "{written}");
    assert_eq!(volume.size_bytes(file), Ok(written as u64));
    let mut read = vec![0; written];
    assert_eq!(volume.read(file, 0, &mut read), Ok(written));
    assert!(read.iter().all(|byte| *byte == 5));
    fill(&volume, file);
}

#[test]
fn s09_no_enospc_while_any_pool_has_room() {
    let scratch = Scratch::new(2, 16 << 20);
    let volume = scratch.attach();
    for policy in [AllocationPolicy::Pool(1), AllocationPolicy::Local] {
        volume.set_allocation(policy);
        let file = open_new(&volume, b"file");
        fill(&volume, file);
        for pool in 0..2 {
            let free = volume.space(Some(pool)).free_blocks;
            assert!(free < 8, "{policy:?}: pool {pool} has {free} free blocks");
        }
        volume.unlink(ROOT, b"file").unwrap();
        volume.close(file.ino());
    }
}

#[test]
fn s10_reserved_space_promises_no_later_write() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    let keep = AllocateMode::KeepSize;
    let mut at = 0;
    for step in [1 << 20, 4096] {
        while volume.allocate(file, at, step, keep).is_ok() {
            at += step;
        }
    }
    assert_eq!(volume.size_bytes(file), Ok(0));
    assert!(blocks(&volume, file) >= at / BLOCK as u64 && at > 4 << 20);
    // Copy-on-write: the new block comes before the old one goes.
    assert_eq!(failed(volume.write(file, 0, &[1; 4096])), libc::ENOSPC);
    let other = open_new(&volume, b"other");
    assert_eq!(failed(volume.write(other, 0, b"x")), libc::ENOSPC);
    volume.unlink(ROOT, b"file").unwrap();
}

#[test]
fn s11_a_reservation_that_does_not_fit_keeps_the_size() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    fragment(&volume);
    let file = open_new(&volume, b"file");
    let outcome = volume.allocate(file, 0, 16 << 20, AllocateMode::Extend);
    assert_eq!(failed(outcome), libc::ENOSPC);
    assert_eq!(volume.size_bytes(file), Ok(0));
    assert!(blocks(&volume, file) > 0);
}

#[test]
fn s12_blocks_are_those_of_data_and_reservations() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    assert_eq!(blocks(&volume, file), 0);
    volume.write(file, 1 << 30, b"x").unwrap();
    assert_eq!(
        blocks(&volume, file),
        1,
        "holes take none, nor does the log"
    );
    for _ in 0..200 {
        volume.write(file, 1 << 30, b"y").unwrap();
    }
    assert_eq!(blocks(&volume, file), 1);
    let keep = AllocateMode::KeepSize;
    volume.allocate(file, 0, 10 * BLOCK as u64, keep).unwrap();
    assert_eq!(blocks(&volume, file), 11);
    let link = volume.symlink(ROOT, b"link", b"target", 0, 0).unwrap();
    assert_eq!((link.blocks, link.size_bytes), (1, 6));
}

#[test]
fn s13_zeroing_a_range_leaves_holes() {
    let scratch = Scratch::new(1, 16 << 20);
    for mode in [AllocateMode::ZeroRange, AllocateMode::ZeroRangeKeepSize] {
        let volume = scratch.attach();
        let file = open_new(&volume, b"file");
        volume.write(file, 0, &[9; 10 * BLOCK]).unwrap();
        volume.allocate(file, 1000, 8 * BLOCK as u64, mode).unwrap();
        assert_eq!(blocks(&volume, file), 3, "seven whole blocks are a hole");
        let mut read = vec![1; 10 * BLOCK];
        volume.read(file, 0, &mut read).unwrap();
        let mut expected = vec![9; 10 * BLOCK];
        expected[1000..1000 + 8 * BLOCK].fill(0);
        assert!(read == expected);
        assert_eq!(volume.seek_hole(file, 0), Ok(BLOCK as u64));
        volume.close(file.ino());
        volume.unlink(ROOT, b"file").unwrap();
    }
}

/// What a call did is the same before and after the volume is attached anew.
#[test]
fn s13_growing_by_zeroes_changes_the_modification_time() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let file = open_new(&volume, b"file");
    let change = AttributeChange {
        mtime: Some(TimeChange::At(5)),
        ..AttributeChange::default()
    };
    volume.set_attributes(file.ino(), &change).unwrap();
    let mode = AllocateMode::ZeroRange;
    volume.allocate(file, 0, 100, mode).unwrap();
    let before = volume.attributes(file.ino()).unwrap();
    volume.close(file.ino());
    drop(volume);
    let after = scratch.attach().lookup(ROOT, b"file").unwrap();
    assert_eq!(before, after);
    assert_eq!(after.size_bytes, 100);
    assert!(after.mtime_ns > 5);
}

#[test]
fn s14_a_pool_has_one_inode_per_block() {
    let scratch = Scratch::new(2, 16 << 20);
    let volume = scratch.attach();
    let space = volume.space(None);
    assert_eq!(space.inodes, 2 * (16 << 20) / BLOCK as u64);
    assert_eq!(space.free_inodes, space.inodes - 1, "the root");
    assert!(space.blocks < space.inodes, "statfs leaves metadata out");
    for at in 0..320 {
        volume
            .create(ROOT, format!("{at}").as_bytes(), &FILE)
            .unwrap();
    }
    let used = volume.space(None);
    assert_eq!(space.free_inodes - used.free_inodes, 320);
    let blocks = space.free_blocks - used.free_blocks;
    // Ten or eleven blocks of 32 records each, and the root's log of one line per name.
    assert!((15..=20).contains(&blocks), "{blocks}");
}
