//! Data moves between pools while files are in use: nothing is lost, nothing looks different.

use crate::common::*;
use egeria_engine::format::BLOCK;
use egeria_engine::*;
use egeria_media::PoolIndex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const ROOT: InodeNumber = InodeNumber::ROOT;
const HERE: PoolIndex = PoolIndex(0);
const THERE: PoolIndex = PoolIndex(1);

fn pattern(from: usize, bytes: usize) -> Vec<u8> {
    (from..from + bytes).map(|at| (at / 7 + at) as u8).collect()
}

/// A volume of two pools, new data on the first.
fn prepared(pool_bytes: u64) -> (Scratch, Arc<Volume>) {
    let scratch = Scratch::new(2, pool_bytes);
    let volume = scratch.attach();
    volume.set_allocation(AllocationPolicy::Pool(0));
    (scratch, volume)
}

fn file_of(volume: &Volume, directory: InodeNumber, bytes: usize) -> FileReference {
    let ino = volume.create(directory, b"file", &FILE).unwrap().ino;
    let file = volume.open(ino, None).unwrap();
    assert_eq!(volume.write(file, 0, &pattern(0, bytes)), Ok(bytes));
    file
}

/// All of it, part by part; the bytes that moved and the parts that were given up.
fn relocate_all(volume: &Volume, file: FileReference, ends: (PoolIndex, PoolIndex)) -> (u64, u64) {
    let (mut block, mut moved, mut given_up) = (0, 0, 0);
    let blocks = volume
        .attributes(file.ino())
        .unwrap()
        .size_bytes
        .div_ceil(BLOCK as u64);
    while block < blocks {
        let part = volume
            .relocate(file, block..blocks, ends)
            .expect("relocate");
        assert!(part.next_block > block, "it goes on");
        block = part.next_block;
        moved += part.moved_bytes;
        given_up += u64::from(part.is_given_up);
    }
    (moved, given_up)
}

fn contents(volume: &Volume, file: FileReference, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    assert_eq!(volume.read(file, 0, &mut read), Ok(bytes));
    read
}

#[test]
fn data_moves_and_times_and_bytes_stay() {
    const BYTES: usize = (3 << 20) + 777;
    let (scratch, volume) = prepared(32 << 20);
    let file = file_of(&volume, ROOT, BYTES);
    let before = volume.attributes(file.ino()).unwrap();
    let rounded = BYTES.next_multiple_of(BLOCK) as u64;
    assert_eq!(
        volume.bytes_by_pool(file, u64::MAX).unwrap()[..2],
        [rounded, 0]
    );
    assert_eq!(relocate_all(&volume, file, (HERE, THERE)), (rounded, 0));
    assert_eq!(
        volume.bytes_by_pool(file, u64::MAX).unwrap()[..2],
        [0, rounded]
    );
    assert_eq!(contents(&volume, file, BYTES), pattern(0, BYTES));
    assert_eq!(volume.attributes(file.ino()).unwrap(), before);
    assert_eq!(
        relocate_all(&volume, file, (HERE, THERE)),
        (0, 0),
        "all is there"
    );
    let ino = file.ino();
    volume.detach();
    // What the log says, not what the session remembers.
    let volume = scratch.attach();
    let file = volume.open(ino, None).unwrap();
    assert_eq!(volume.attributes(ino).unwrap(), before);
    assert_eq!(contents(&volume, file, BYTES), pattern(0, BYTES));
    assert_eq!(
        volume.bytes_by_pool(file, u64::MAX).unwrap()[..2],
        [0, rounded]
    );
    volume.detach();
    scratch.assert_clean();
}

#[test]
fn holes_stay_holes_and_only_the_named_part_moves() {
    let (scratch, volume) = prepared(32 << 20);
    let file = file_of(&volume, ROOT, 64 * BLOCK);
    let hole = (16 * BLOCK as u64, 8 * BLOCK as u64);
    volume
        .allocate(file, hole.0, hole.1, AllocateMode::PunchHole)
        .unwrap();
    let part = volume.relocate(file, 8..32, (HERE, THERE)).unwrap();
    assert_eq!((part.next_block, part.moved_bytes), (32, 16 * BLOCK as u64));
    let block = BLOCK as u64;
    assert_eq!(
        volume.bytes_by_pool(file, u64::MAX).unwrap()[..2],
        [40 * block, 16 * block]
    );
    assert_eq!(volume.seek_hole(file, 0), Ok(hole.0));
    assert_eq!(volume.seek_data(file, hole.0), Ok(hole.0 + hole.1));
    let mut expected = pattern(0, 64 * BLOCK);
    expected[16 * BLOCK..24 * BLOCK].fill(0);
    assert_eq!(contents(&volume, file, 64 * BLOCK), expected);
    let beyond = volume
        .relocate(file, 1000..u64::MAX, (HERE, THERE))
        .unwrap();
    assert_eq!(beyond.moved_bytes, 0);
    volume.detach();
    scratch.assert_clean();
}

#[test]
fn checksums_come_along() {
    let (scratch, volume) = prepared(32 << 20);
    let directory = volume.create(ROOT, b"checked", &DIRECTORY).unwrap().ino;
    set_checksums(&volume, directory, b"crc32c").unwrap();
    let file = file_of(&volume, directory, 40 * BLOCK + 5);
    let (moved, _) = relocate_all(&volume, file, (HERE, THERE));
    assert_eq!(moved, 41 * BLOCK as u64);
    assert_eq!(
        contents(&volume, file, 40 * BLOCK + 5),
        pattern(0, 40 * BLOCK + 5)
    );
    let ino = file.ino();
    volume.detach();
    let volume = scratch.attach();
    let file = volume.open(ino, None).unwrap();
    assert_eq!(
        contents(&volume, file, 40 * BLOCK + 5),
        pattern(0, 40 * BLOCK + 5)
    );
    volume.detach();
    scratch.assert_clean();
}

#[test]
fn full_pool_and_files_written_in_place_are_left_as_they_are() {
    let (scratch, volume) = prepared(16 << 20);
    let file = file_of(&volume, ROOT, 4 << 20);
    volume.set_allocation(AllocationPolicy::Pool(1));
    let filler = volume.create(ROOT, b"filler", &FILE).unwrap().ino;
    let filler = volume.open(filler, None).unwrap();
    let mut at = 0;
    while let Ok(bytes) = volume.write(filler, at, &[7; 1 << 16]) {
        at += bytes as u64;
        if volume.bytes_by_pool(filler, u64::MAX).unwrap()[0] > 0 {
            break;
        }
    }
    let full = volume.relocate(file, 0..1024, (HERE, THERE));
    assert_eq!(full, Err(Errno(libc::ENOSPC)));
    assert_eq!(contents(&volume, file, 4 << 20), pattern(0, 4 << 20));
    let striped = volume.create(ROOT, b"striped", &FILE).unwrap().ino;
    let layout = b"user.egeria.layout";
    volume
        .set_xattr(striped, layout, b"striped", XattrMode::Any)
        .unwrap();
    let striped = volume.open(striped, None).unwrap();
    let refused = volume.relocate(striped, 0..1, (HERE, THERE));
    assert_eq!(refused, Err(Errno(libc::EOPNOTSUPP)));
    let directory = volume.relocate(volume.open(ROOT, None).unwrap(), 0..1, (HERE, THERE));
    assert!(directory.is_err());
    volume.detach();
    scratch.assert_clean();
}

/// Writers, appenders, readers and a truncater beside relocations to and fro.
#[test]
fn who_writes_meanwhile_loses_nothing() {
    const BLOCKS: usize = 64;
    let (scratch, volume) = prepared(32 << 20);
    let file = file_of(&volume, ROOT, BLOCKS * BLOCK);
    // Each block holds one number over and over, which only grows.
    for block in 0..BLOCKS {
        let zeros = vec![0; BLOCK];
        volume.write(file, (block * BLOCK) as u64, &zeros).unwrap();
    }
    let stop = AtomicBool::new(false);
    let newest: Vec<AtomicU64> = (0..BLOCKS).map(|_| AtomicU64::new(0)).collect();
    let (moved, given_up) = std::thread::scope(|scope| {
        for writer in 0..2 {
            let (volume, newest, stop) = (&volume, &newest, &stop);
            scope.spawn(move || {
                for round in 1u64.. {
                    let block = (round as usize * 7 % (BLOCKS / 2)) * 2 + writer;
                    let number = newest[block].load(Ordering::SeqCst) + 1;
                    let bytes: Vec<u8> = number.to_le_bytes().repeat(BLOCK / 8);
                    volume
                        .write(file, (block * BLOCK) as u64, &bytes)
                        .expect("write");
                    newest[block].store(number, Ordering::SeqCst);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            });
        }
        let reader = scope.spawn(|| {
            let mut bytes = vec![0; BLOCK];
            for block in (0..BLOCKS).cycle() {
                let before = newest[block].load(Ordering::SeqCst);
                let read = volume.read(file, (block * BLOCK) as u64, &mut bytes);
                assert_eq!(read, Ok(BLOCK));
                let number = |part: &[u8]| u64::from_le_bytes(part.try_into().unwrap());
                let first = number(&bytes[..8]);
                assert!(bytes.chunks(8).all(|part| number(part) == first), "torn");
                assert!(
                    first >= before,
                    "older than what had returned: {first} {before}"
                );
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let (mut moved, mut given_up) = (0, 0);
        for round in 0..200 {
            let ends = match round % 2 {
                0 => (HERE, THERE),
                _ => (THERE, HERE),
            };
            let (bytes, parts) = relocate_all(&volume, file, ends);
            moved += bytes;
            given_up += parts;
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("the reader");
        (moved, given_up)
    });
    assert!(
        moved > 0,
        "it moved nothing, {given_up} parts were given up"
    );
    for (block, number) in newest.iter().enumerate() {
        let mut bytes = [0; 8];
        volume
            .read(file, (block * BLOCK) as u64, &mut bytes)
            .unwrap();
        assert_eq!(u64::from_le_bytes(bytes), number.load(Ordering::SeqCst));
    }
    volume.detach();
    scratch.assert_clean();
}
