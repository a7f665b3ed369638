use crate::test_volume::{FILE, findings, new_volume};
use crate::*;
use egeria_stats::rng::Rng;
use std::path::PathBuf;
use std::sync::Arc;

const BLOCK: usize = 4096;

/// A volume with an empty file, and another one that has blocks.
fn prepared(directory: &tempfile::TempDir) -> (Arc<Volume>, PathBuf, FileReference) {
    let (volume, path) = new_volume(directory);
    let open = |name| {
        let made = volume.create(InodeNumber::ROOT, name, &FILE);
        volume.open(made.expect("create").ino, None).expect("open")
    };
    volume
        .write(open(b"other"), 0, &[1; 64 * BLOCK])
        .expect("write");
    let file = open(b"file");
    (volume, path, file)
}

/// Give the thread this number of free blocks at hand.
fn give_blocks(volume: &Volume, blocks: u64) {
    let other = volume.lookup(InodeNumber::ROOT, b"other").expect("lookup");
    let size = volume.attributes(other.ino).expect("attributes").size_bytes;
    let other = volume.open(other.ino, None).expect("open");
    resize(volume, other, size - blocks * BLOCK as u64);
}

/// Appends, the quick way if it can.
fn append(volume: &Volume, file: FileReference, bytes: &[u8]) -> (u64, bool) {
    match volume.append_quickly(file, bytes.into()) {
        Some(offset) => (offset, true),
        None => (volume.append(file, bytes).expect("append").0, false),
    }
}

fn content(volume: &Volume, file: FileReference) -> Vec<u8> {
    let mut all = vec![
        0;
        volume
            .attributes(file.ino())
            .expect("attributes")
            .size_bytes as usize
    ];
    assert_eq!(volume.read(file, 0, &mut all), Ok(all.len()));
    all
}

#[test]
fn appends_go_the_quick_way_and_are_found_again() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, path, file) = prepared(&directory);
    let mut expected = Vec::new();
    let mut quick = 0;
    for round in 0..4 * 256u32 {
        let bytes = [round as u8; 256];
        let (offset, was_quick) = append(&volume, file, &bytes);
        assert_eq!(offset as usize, expected.len());
        expected.extend(bytes);
        quick += u32::from(was_quick);
    }
    // One in sixteen begins a block, and one in some sixty a page of the log.
    assert!(quick > 900, "{quick}");
    give_blocks(&volume, 4);
    for round in 0..4 {
        let bytes = [round as u8; BLOCK];
        let (_, was_quick) = append(&volume, file, &bytes);
        expected.extend(bytes);
        assert!(was_quick, "block {round}");
    }
    assert!(content(&volume, file) == expected);
    drop(volume);
    assert_eq!(findings(&path), []);
    let options = AttachOptions::default();
    let volume = Volume::attach(&path, AttachMode::CreateOrJoin, &options).expect("attach");
    let found = volume.lookup(InodeNumber::ROOT, b"file").expect("lookup");
    let file = volume.open(found.ino, None).expect("open");
    assert!(content(&volume, file) == expected);
}

#[test]
fn random_changes_of_the_end_are_those_of_a_vector() {
    for seed in 0..8 {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, path, file) = prepared(&directory);
        let mut random = Rng::new(seed);
        let mut expected: Vec<u8> = Vec::new();
        for round in 0..600u32 {
            let byte = round as u8 | 1;
            let most = [8, 300, 2 * BLOCK][random.below(3) as usize];
            let bytes = vec![byte; 1 + random.below(most as u64) as usize];
            let end = expected.len() as u64;
            match random.below(12) {
                0 => {
                    let size = random.below(end + BLOCK as u64);
                    resize(&volume, file, size);
                    expected.resize(size as usize, 0);
                }
                1 => {
                    let reserved =
                        volume.allocate(file, end, 3 * BLOCK as u64, AllocateMode::KeepSize);
                    reserved.expect("reserve");
                }
                2 => {
                    // A gap is zeros, whatever was behind the end before.
                    let at = end + random.below(300);
                    volume.write(file, at, &bytes).expect("write");
                    expected.resize(at as usize, 0);
                    expected.extend(&bytes);
                }
                3 => {
                    let whole = [byte; BLOCK];
                    append(&volume, file, &whole);
                    expected.extend(whole);
                }
                4..8 => {
                    if volume.write_quickly(file, end, bytes[..].into()).is_none() {
                        volume.write(file, end, &bytes).expect("write");
                    }
                    expected.extend(&bytes);
                }
                _ => {
                    append(&volume, file, &bytes);
                    expected.extend(&bytes);
                }
            }
        }
        assert!(content(&volume, file) == expected, "seed {seed}");
        drop(volume);
        assert_eq!(findings(&path), [], "seed {seed}");
    }
}

/// Writes, the quick way if it can.
fn write(volume: &Volume, file: FileReference, at: u64, bytes: &[u8]) -> bool {
    match volume.write_quickly(file, at, bytes.into()) {
        Some(written) => {
            assert_eq!(written, bytes.len());
            true
        }
        None => {
            assert_eq!(volume.write(file, at, bytes), Ok(bytes.len()));
            false
        }
    }
}

fn resize(volume: &Volume, file: FileReference, size_bytes: u64) {
    let change = AttributeChange {
        size_bytes: Some(size_bytes),
        ..AttributeChange::default()
    };
    volume
        .set_attributes(file.ino(), &change)
        .expect("truncate");
}

#[test]
fn random_short_writes_are_those_of_a_vector() {
    for seed in 0..6 {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, path, file) = prepared(&directory);
        let mut random = Rng::new(seed);
        let mut expected: Vec<u8> = vec![1; 20 * BLOCK + 77];
        volume.write(file, 0, &expected).expect("write");
        let (mut quick, mut writes) = (0, 0);
        for round in 0..1500u32 {
            let end = expected.len() as u64;
            match random.below(40) {
                0 => {
                    let size = random.below(end + 3 * BLOCK as u64);
                    resize(&volume, file, size);
                    expected.resize(size as usize, 0);
                    continue;
                }
                1 => {
                    // Blocks that are reserved have no data.
                    let mode = AllocateMode::KeepSize;
                    let reserved = volume.allocate(file, end, 3 * BLOCK as u64, mode);
                    reserved.expect("reserve");
                    continue;
                }
                2 => {
                    let (at, bytes) = (random.below(end + 1), random.below(9000));
                    let punched = volume.allocate(file, at, bytes + 1, AllocateMode::PunchHole);
                    punched.expect("punch");
                    let last = (at + bytes + 1).min(end) as usize;
                    expected[at as usize..last].fill(0);
                    continue;
                }
                _ => {}
            }
            // At the edges of blocks more often than elsewhere, and up to the end.
            let at = match random.below(4) {
                0 => (random.below(end / BLOCK as u64 + 1) * BLOCK as u64)
                    .saturating_sub(random.below(3)),
                1 => end,
                _ => random.below(end + 1),
            };
            let most = [1, 64, BLOCK][random.below(3) as usize];
            let bytes = vec![round as u8 | 2; 1 + random.below(most as u64) as usize];
            quick += u32::from(write(&volume, file, at, &bytes));
            writes += 1;
            let (at, end) = (at as usize, at as usize + bytes.len());
            expected.resize(expected.len().max(end), 0);
            expected[at..end].copy_from_slice(&bytes);
        }
        assert!(quick > writes * 3 / 4, "{quick} of {writes}");
        // Nothing of old blocks shows behind the end of file.
        let size = expected.len().next_multiple_of(BLOCK) + BLOCK;
        resize(&volume, file, size as u64);
        expected.resize(size, 0);
        assert!(content(&volume, file) == expected, "seed {seed}");
        drop(volume);
        assert_eq!(findings(&path), [], "seed {seed}");
        let options = AttachOptions::default();
        let volume = Volume::attach(&path, AttachMode::CreateOrJoin, &options).expect("attach");
        let found = volume.lookup(InodeNumber::ROOT, b"file").expect("lookup");
        let file = volume.open(found.ino, None).expect("open");
        assert!(content(&volume, file) == expected, "seed {seed}");
    }
}

#[test]
fn short_writes_take_no_more_blocks_than_they_add() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, path, file) = prepared(&directory);
    volume.write(file, 0, &[1; 8 * BLOCK]).expect("write");
    let blocks = || volume.attributes(file.ino()).expect("attributes").blocks;
    let (free, had) = (volume.space(None).free_blocks, blocks());
    for round in 0..40u32 {
        write(&volume, file, u64::from(round) * 700, &[round as u8; 900]);
    }
    assert_eq!(blocks(), had);
    let taken = free - volume.space(None).free_blocks;
    assert!(taken <= 1, "{taken}: a page of the log at most");
    drop(volume);
    assert_eq!(findings(&path), []);
}

#[test]
fn what_is_not_short_or_not_inside_is_left() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _, file) = prepared(&directory);
    volume.append(file, &[1; 5000]).expect("append");
    let quick = |bytes: &[u8]| volume.append_quickly(file, bytes.into());
    assert_eq!(quick(&[2; BLOCK + 1]), None);
    assert_eq!(quick(&[]), None);
    let at = |at, bytes: &[u8]| volume.write_quickly(file, at, bytes.into());
    assert_eq!(at(0, &[]), None);
    assert_eq!(at(5001, &[2; 8]), None, "behind the end");
    assert_eq!(at(u64::MAX, &[2; 8]), None, "behind the end");
    assert_eq!(at(5000, &[2; 8]), Some(8));
    volume.mark_kernel_cached(file.ino()).expect("mark");
    assert_eq!(quick(&[2; 8]), None, "the kernel has pages");
    assert_eq!(at(10, &[2; 8]), None, "the kernel has pages");
    volume.unmark_kernel_cached(file.ino());
    assert_eq!(quick(&[2; 8]), Some(5008));
    assert_eq!(quick(&[2; 2 * BLOCK - 5016]), Some(5016));
    give_blocks(&volume, 1);
    volume.append(file, &[2; 8 * BLOCK]).expect("append");
    assert_eq!(quick(&[2; BLOCK]), Some(10 * BLOCK as u64));
}

#[test]
fn bad_memory_appends_nothing() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, path, file) = prepared(&directory);
    volume.append(file, &[1; 100]).expect("append");
    give_blocks(&volume, 8);
    let free = volume.space(None).free_blocks;
    for bytes in [8, BLOCK] {
        // SAFETY: nothing is mapped there.
        let nowhere = unsafe { CallerSource::new(std::ptr::null(), bytes) };
        assert_eq!(volume.append_quickly(file, nowhere), None);
        assert_eq!(volume.write_quickly(file, 5, nowhere), None);
    }
    assert_eq!(volume.space(None).free_blocks, free);
    assert_eq!(content(&volume, file), [1; 100]);
    drop(volume);
    assert_eq!(findings(&path), []);
}
