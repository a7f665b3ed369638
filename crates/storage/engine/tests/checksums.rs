//! Checksums of data: damage on media is never given out as data, and is named (invariant 4).

use crate::common::*;
use egeria_engine::format::BLOCK;
use egeria_engine::*;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const ROOT: InodeNumber = InodeNumber::ROOT;
const EIO: Errno = Errno(libc::EIO);

/// Every byte tells where it is.
fn pattern(from: usize, bytes: usize) -> Vec<u8> {
    (from..from + bytes).map(|at| (at / 7 + at) as u8).collect()
}

/// A volume with a directory whose files have checksums.
fn prepared() -> (Scratch, Arc<Volume>, InodeNumber) {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let directory = volume.create(ROOT, b"checked", &DIRECTORY).unwrap().ino;
    set_checksums(&volume, directory, b"crc32c").unwrap();
    (scratch, volume, directory)
}

fn file_of(volume: &Volume, directory: InodeNumber, name: &[u8], bytes: usize) -> FileReference {
    let ino = volume.create(directory, name, &FILE).unwrap().ino;
    let file = volume.open(ino, None).unwrap();
    assert_eq!(volume.write(file, 0, &pattern(0, bytes)), Ok(bytes));
    file
}

fn truncate(volume: &Volume, file: FileReference, size_bytes: u64) -> Outcome<()> {
    let change = AttributeChange {
        size_bytes: Some(size_bytes),
        ..AttributeChange::default()
    };
    volume.set_attributes(file.ino(), &change).map(drop)
}

/// Where a file block is in pool 0.
fn place(volume: &Volume, file: FileReference, file_block: u64) -> u64 {
    let at = file_block * BLOCK as u64;
    let extents = volume.extents(file.ino()).unwrap();
    let holds = |extent: &&ExtentReport| {
        (extent.file_offset_bytes..extent.file_offset_bytes + extent.length_bytes).contains(&at)
    };
    let extent = extents.iter().find(holds).expect("a block is there");
    extent.block * BLOCK as u64 + at - extent.file_offset_bytes
}

/// Flip one bit of the media at this byte of a file, past the engine; again, and it is as before.
fn flip(scratch: &Scratch, volume: &Volume, file: FileReference, byte: u64) {
    let at = place(volume, file, byte / BLOCK as u64) + byte % BLOCK as u64;
    let pool = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&scratch.pools[0])
        .unwrap();
    let mut old = [0];
    pool.read_exact_at(&mut old, at).unwrap();
    pool.write_all_at(&[old[0] ^ 0x10], at).unwrap();
}

fn read(volume: &Volume, file: FileReference, at: usize, bytes: usize) -> Outcome<Vec<u8>> {
    let mut buffer = vec![0xEE; bytes];
    let count = volume.read(file, at as u64, &mut buffer)?;
    buffer.truncate(count);
    Ok(buffer)
}

fn scrubbed(volume: &Volume) -> Vec<Finding> {
    let report = volume.scrub(true, &mut |_| ControlFlow::Continue(()));
    report.expect("scrub").findings
}

#[test]
fn a_flipped_bit_is_eio_for_just_the_reads_that_need_it() {
    let (scratch, volume, directory) = prepared();
    // Small enough for words in the inode, if it had no checksums; one leaf; several leaves.
    for (name, bytes) in [(b"s", 9_000), (b"m", 100_000), (b"l", 3_000_000)] {
        let file = file_of(&volume, directory, name, bytes);
        let bad = bytes / 2 / BLOCK;
        for byte in [0, 1, 2047, 4095] {
            let byte = (bad * BLOCK + byte) as u64;
            flip(&scratch, &volume, file, byte);
            let before = volume.counters().checksum_failures;
            assert_eq!(read(&volume, file, bad * BLOCK, 1), Err(EIO));
            assert_eq!(read(&volume, file, bad * BLOCK + 4095, 1), Err(EIO));
            assert_eq!(read(&volume, file, bad * BLOCK, BLOCK), Err(EIO));
            assert_eq!(read(&volume, file, 0, bytes), Err(EIO));
            assert_eq!(volume.counters().checksum_failures, before + 4);
            let ahead = bad * BLOCK;
            assert_eq!(read(&volume, file, 0, ahead), Ok(pattern(0, ahead)));
            let behind = ahead + BLOCK;
            let rest = pattern(behind, bytes - behind);
            assert_eq!(read(&volume, file, behind, bytes), Ok(rest));
            flip(&scratch, &volume, file, byte);
            assert_eq!(read(&volume, file, 0, bytes + 1), Ok(pattern(0, bytes)));
        }
        assert_eq!(scrubbed(&volume), []);
    }
}

#[test]
fn nothing_of_a_damaged_block_reaches_the_caller() {
    let (scratch, volume, directory) = prepared();
    let file = file_of(&volume, directory, b"file", 20_000);
    flip(&scratch, &volume, file, 9000);
    let mut buffer = vec![0xEE; 20_000];
    assert_eq!(volume.read(file, 0, &mut buffer), Err(EIO));
    assert!(buffer[8192..].iter().all(|byte| *byte == 0xEE));
}

#[test]
fn operations_that_keep_damaged_bytes_are_refused() {
    let (scratch, volume, directory) = prepared();
    let file = file_of(&volume, directory, b"file", 20_000);
    flip(&scratch, &volume, file, 9000);
    flip(&scratch, &volume, file, 18_000);
    assert_eq!(volume.write(file, 8200, b"in it"), Err(EIO));
    assert_eq!(volume.write(file, 4000, &[1; 5000]), Err(EIO));
    assert_eq!(volume.append(file, b"to its end"), Err(EIO));
    let punch = AllocateMode::PunchHole;
    assert_eq!(volume.allocate(file, 100, 9000, punch), Err(EIO));
    assert_eq!(truncate(&volume, file, 9000), Err(EIO));
    flip(&scratch, &volume, file, 9000);
    flip(&scratch, &volume, file, 18_000);
    assert_eq!(read(&volume, file, 0, 30_000), Ok(pattern(0, 20_000)));
    volume.close(file.ino());
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn operations_that_replace_a_damaged_block_repair_it() {
    let (scratch, volume, directory) = prepared();
    type Repair<'m> = &'m dyn Fn(&Volume, FileReference) -> Outcome<()>;
    let repairs: [(Repair<'_>, std::ops::Range<usize>); 5] = [
        (
            &|volume, file| volume.write(file, 8192, &[5; BLOCK]).map(drop),
            8192..12288,
        ),
        (
            &|volume, file| volume.allocate(file, 8192, 4096, AllocateMode::PunchHole),
            8192..12288,
        ),
        (
            &|volume, file| volume.allocate(file, 5000, 9000, AllocateMode::ZeroRange),
            5000..14_000,
        ),
        (
            &|volume, file| truncate(volume, file, 8192),
            8192..usize::MAX,
        ),
        (&|volume, file| truncate(volume, file, 0), 0..usize::MAX),
    ];
    for (number, (hint, changed)) in repairs.into_iter().enumerate() {
        let name = [b'a' + number as u8];
        let file = file_of(&volume, directory, &name, 20_000);
        flip(&scratch, &volume, file, 9000);
        assert_eq!(read(&volume, file, 0, 20_000), Err(EIO));
        assert_eq!(hint(&volume, file), Ok(()), "hint {number}");
        let found = read(&volume, file, 0, 20_000).expect("repaired");
        for (at, byte) in found.iter().enumerate() {
            let same = *byte == pattern(at, 1)[0];
            assert!(same || changed.contains(&at), "hint {number}, byte {at}");
        }
        volume.close(file.ino());
    }
    // A last block that is overwritten up to the end of file.
    let file = file_of(&volume, directory, b"last", 20_000);
    flip(&scratch, &volume, file, 19_000);
    assert_eq!(volume.write(file, 16_384, &[7; 3616]), Ok(3616));
    assert_eq!(read(&volume, file, 16_384, 9000), Ok(vec![7; 3616]));
    volume.close(file.ino());
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn check_and_scrub_name_damaged_bytes_and_repair_keeps_them() {
    let (scratch, volume, directory) = prepared();
    let file = file_of(&volume, directory, b"file", 1_000_000);
    let long = file_of(&volume, directory, b"other", 50_000);
    let link = [b't'; 100];
    let link = volume.symlink(directory, b"link", &link, 0, 0).unwrap().ino;
    let damage = |volume: &Volume| {
        for byte in [0u64, 8192, 12_288 + 5, 500_000] {
            flip(&scratch, volume, file, byte);
        }
        flip(&scratch, volume, long, 49_999);
    };
    damage(&volume);
    let line = |finding: &Finding| {
        let (_, what) = finding.what.split_once("bytes ").expect("bytes");
        let (range, _) = what.split_once(" (").expect("a range");
        assert!(what.contains("do not match their checksum") && !finding.repairable);
        format!("{} {range}", finding.affects)
    };
    let expected = [
        "/checked/file 0 to 4095",
        "/checked/file 8192 to 16383",
        "/checked/file 499712 to 503807",
        "/checked/other 49152 to 53247",
    ];
    assert_eq!(
        scrubbed(&volume).iter().map(line).collect::<Vec<_>>(),
        expected
    );
    assert_eq!(volume.read_link(link), Ok(vec![b't'; 100]));
    // A bit of the link too, where its only block is.
    let at = volume.extents(link).unwrap()[0].block * BLOCK as u64;
    let pool = std::fs::File::options().write(true).open(&scratch.pools[0]);
    pool.unwrap().write_all_at(b"T", at + 3).unwrap();
    assert_eq!(volume.read_link(link), Err(EIO));
    for file in [file, long] {
        volume.close(file.ino());
    }
    drop(volume);

    let image = std::fs::read(&scratch.pools[0]).unwrap();
    for repair in [false, true] {
        let report = check_volume(&scratch.pools[0], repair, &mut |_, _| {}).expect("check");
        let mut lines: Vec<String> = report.findings.iter().map(line).collect();
        assert_eq!(lines.pop().as_deref(), Some("/checked/link 0 to 4095"));
        assert_eq!(lines, expected);
        assert_eq!(report.repaired, 0);
    }
    let after = std::fs::read(&scratch.pools[0]).unwrap();
    let data = 300 * BLOCK;
    assert!(image[data..] == after[data..], "a repair changed data");
}

#[test]
fn what_is_made_in_a_directory_gets_what_the_directory_has() {
    let (scratch, volume, directory) = prepared();
    let has = |volume: &Volume, ino| volume.get_xattr(ino, CHECKSUM_ATTRIBUTE).ok();
    let (on, off) = (Some(b"crc32c".to_vec()), Some(b"off".to_vec()));
    let make = |directory, name: &[u8], new| volume.create(directory, name, new).unwrap().ino;
    let inner = make(directory, b"inner", &DIRECTORY);
    let file = make(inner, b"file", &FILE);
    let unnamed = volume.create_unnamed(inner, &FILE).unwrap().ino;
    let device = NewInode {
        mode: libc::S_IFIFO | 0o644,
        ..FILE
    };
    let fifo = make(inner, b"fifo", &device);
    let before = make(ROOT, b"before", &FILE);
    set_checksums(&volume, inner, b"off").unwrap();
    let later = make(inner, b"later", &FILE);
    let below = make(inner, b"below", &DIRECTORY);
    volume.remove_xattr(directory, CHECKSUM_ATTRIBUTE).unwrap();
    let last = make(directory, b"last", &FILE);
    volume
        .rename(ROOT, b"before", inner, b"moved", RenameMode::Replace)
        .unwrap();
    let expected = [
        (directory, None),
        (inner, off),
        (file, on.clone()),
        (fifo, None),
        (before, None),
        (later, None),
        (below, None),
        (last, None),
    ];
    assert_eq!(has(&volume, unnamed), on);
    volume.close(unnamed);
    let listed = |volume: &Volume, ino| volume.list_xattr(ino).unwrap();
    assert_eq!(listed(&volume, file), Vec::<Vec<u8>>::new());
    assert_eq!(listed(&volume, inner), [CHECKSUM_ATTRIBUTE.to_vec()]);
    for (ino, expected) in &expected {
        assert_eq!(has(&volume, *ino), *expected, "{ino:?}");
    }
    drop(volume);
    let volume = scratch.attach();
    for (ino, expected) in &expected {
        assert_eq!(has(&volume, *ino), *expected, "{ino:?} in the next session");
    }
    drop(volume);
    scratch.assert_clean();
}

#[test]
fn files_keep_the_checksums_they_were_made_with() {
    let (_scratch, volume, directory) = prepared();
    for value in [b"".as_slice(), b"on", b"crc32", b"CRC32C", b"crc32c\n"] {
        assert_eq!(
            set_checksums(&volume, directory, value),
            Err(Errno(libc::EINVAL))
        );
    }
    let refused = Err(Errno(libc::EOPNOTSUPP));
    let plain = volume.create(ROOT, b"plain", &FILE).unwrap().ino;
    let checked = volume.create(directory, b"checked", &FILE).unwrap().ino;
    for value in [b"crc32c".as_slice(), b"off", b"nonsense"] {
        assert_eq!(set_checksums(&volume, plain, value), refused);
    }
    assert_eq!(
        set_checksums(&volume, checked, b"crc32c"),
        Ok(()),
        "nothing changes"
    );
    assert_eq!(set_checksums(&volume, checked, b"off"), refused);
    assert_eq!(volume.remove_xattr(checked, CHECKSUM_ATTRIBUTE), refused);
    let absent = Err(Errno(libc::ENODATA));
    assert_eq!(volume.remove_xattr(plain, CHECKSUM_ATTRIBUTE), absent);
}

/// Without the attribute nothing is checked: the bytes on media are the answer.
#[test]
fn files_without_checksums_are_as_before() {
    let (scratch, volume, _) = prepared();
    let file = file_of(&volume, ROOT, b"file", 20_000);
    flip(&scratch, &volume, file, 9000);
    let found = read(&volume, file, 0, 20_000).expect("no checksum, no error");
    let differing = (0..20_000).filter(|at| found[*at] != pattern(*at, 1)[0]);
    assert_eq!(differing.collect::<Vec<_>>(), [9000]);
    assert_eq!(scrubbed(&volume), []);
    assert_eq!(volume.counters().checksum_failures, 0);
}

/// Readers without the lock meet words and checksums half changed, and must not take that for damage.
#[test]
fn readers_beside_writers_see_no_damage_and_no_mixture() {
    let (_scratch, volume, directory) = prepared();
    let file = file_of(&volume, directory, b"file", 16 * BLOCK);
    volume.write(file, 0, &[0; 16 * BLOCK]).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        let readers: Vec<_> = (1..=3)
            .map(|blocks| {
                let (volume, done) = (&volume, &done);
                scope.spawn(move || {
                    let mut reads = 0;
                    while !done.load(relaxed) {
                        let found = read(volume, file, BLOCK, blocks * BLOCK).expect("no damage");
                        assert!(found.iter().all(|byte| *byte == found[0]), "a mixture");
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        for round in 0..4000u32 {
            volume.write(file, 0, &[round as u8; 16 * BLOCK]).unwrap();
        }
        done.store(true, relaxed);
        for reader in readers {
            assert!(reader.join().expect("a reader") > 0);
        }
    });
    assert_eq!(volume.counters().checksum_failures, 0);
}

/// The caller's memory may change while it is written: what lands has its own sum.
#[test]
fn memory_that_changes_during_a_write_is_no_damage() {
    let (_scratch, volume, directory) = prepared();
    let file = file_of(&volume, directory, b"file", 0);
    let memory: Vec<std::sync::atomic::AtomicU64> = (0..8192).map(|_| Default::default()).collect();
    let done = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0.. {
                // A word of each block: so often that a copy rarely misses it.
                let words = memory.iter().step_by(BLOCK / 8);
                words.for_each(|word| word.store(turn, relaxed));
                if done.load(relaxed) {
                    return;
                }
            }
        });
        for at in 0..600u64 {
            let from: *const u8 = memory.as_ptr().cast();
            // SAFETY: 64 KiB of live atomics, which the engine copies without asking what they are.
            let source = unsafe { CallerSource::new(from.wrapping_add(3), 60_000) };
            let wrote = volume.write_from(file, at * 37, source);
            assert_eq!(wrote, Ok(60_000));
            assert!(read(&volume, file, 0, 1 << 20).is_ok());
        }
        done.store(true, relaxed);
    });
    assert_eq!(
        read(&volume, file, 0, 1 << 20).map(|bytes| bytes.len()),
        Ok(599 * 37 + 60_000)
    );
    assert_eq!(scrubbed(&volume), []);
}

/// One commit brings more checksums than a page of the log holds.
#[test]
fn large_writes_bring_their_checksums() {
    let scratch = Scratch::new(1, 256 << 20);
    let volume = scratch.attach();
    set_checksums(&volume, ROOT, b"crc32c").unwrap();
    let bytes = 150 << 20;
    let file = file_of(&volume, ROOT, b"file", 0);
    let content = pattern(0, bytes);
    assert_eq!(volume.write(file, 1000, &content), Ok(bytes));
    for at in [0, 77 << 20, bytes - 5] {
        let found = read(&volume, file, 1000 + at, 5).unwrap();
        assert_eq!(found, content[at..at + 5]);
    }
    flip(&scratch, &volume, file, 149 << 20);
    assert_eq!(read(&volume, file, 149 << 20, 1), Err(EIO));
    flip(&scratch, &volume, file, 149 << 20);
    volume.close(file.ino());
    drop(volume);
    scratch.assert_clean();
    let volume = scratch.attach();
    let ino = volume.lookup(ROOT, b"file").unwrap().ino;
    let file = volume.open(ino, None).unwrap();
    let mut found = vec![0; bytes];
    assert_eq!(volume.read(file, 1000, &mut found), Ok(bytes));
    assert!(found == content);
}
