//! Checks leave the pools alone; repairs can be taken back.

use crate::common::{FILE, Scratch};
use egeria_engine::format::checksum::crc32c;
use egeria_engine::*;
use std::path::{Path, PathBuf};

fn content(scratch: &Scratch) -> Vec<Vec<u8>> {
    let read = |path: &PathBuf| std::fs::read(path).expect("read");
    scratch.pools.iter().map(read).collect()
}

fn check(pool: &Path, repair: Repair<'_>) -> CheckReport {
    check_volume(pool, repair, &mut |_, _| {}).expect("check")
}

/// A volume in which some names lost their files: the records' commit words are zero.
fn with_dangling_names() -> Scratch {
    let scratch = Scratch::new(2, 8 << 20);
    let volume = scratch.attach();
    let mut lost = Vec::new();
    for index in 0..40u32 {
        let name = format!("file{index}").into_bytes();
        let made = volume.create(InodeNumber::ROOT, &name, &FILE);
        if index % 8 == 0 {
            lost.push(made.expect("create").ino);
        }
    }
    drop(volume);
    for ino in lost {
        lose(&scratch, ino);
    }
    scratch
}

/// Zeroes the commit word of an inode, which lies a line before its certificate.
fn lose(scratch: &Scratch, ino: InodeNumber) {
    for path in &scratch.pools {
        let mut bytes = std::fs::read(path).expect("read");
        let is_certificate = |line: &[u8]| {
            line[..8] == ino.0.to_le_bytes() && crc32c(&line[..60]).to_le_bytes() == line[60..]
        };
        let found = bytes.chunks(64).position(is_certificate);
        if let Some(line) = found {
            bytes[(line - 1) * 64..][..8].fill(0);
            std::fs::write(path, bytes).expect("write");
            return;
        }
    }
    panic!("no record of inode {}", ino.0);
}

/// Repaired, with its undo file and the pools' content of before.
fn repaired() -> (Scratch, PathBuf, Vec<Vec<u8>>) {
    let scratch = with_dangling_names();
    let before = content(&scratch);
    let undo = scratch.directory.path().join("undo");
    let report = check(&scratch.pools[0], Repair::Yes { undo: Some(&undo) });
    assert_eq!(
        (report.findings.len(), report.repaired),
        (5, 5),
        "{report:?}"
    );
    assert_ne!(content(&scratch), before);
    scratch.assert_clean();
    (scratch, undo, before)
}

#[test]
fn a_check_changes_no_byte_of_the_pools() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    // An orphan that an attach would drop, as a crash leaves it.
    let made = volume
        .create_open(InodeNumber::ROOT, b"orphan", &FILE)
        .expect("create");
    volume.unlink(InodeNumber::ROOT, b"orphan").expect("unlink");
    let copy = scratch.directory.path().join("copy");
    std::fs::copy(&scratch.pools[0], &copy).expect("copy");
    volume.close(made.ino);
    drop(volume);
    let before = std::fs::read(&copy).expect("read");
    let report = check(&copy, Repair::No);
    assert_eq!(report.findings, []);
    assert!(std::fs::read(&copy).expect("read") == before, "checked");
    // Nothing to repair: nothing is written either, not even an undo file.
    let undo = scratch.directory.path().join("undo");
    check(&copy, Repair::Yes { undo: Some(&undo) });
    assert!(std::fs::read(&copy).expect("read") == before, "repaired");
    assert!(!undo.exists());
}

#[test]
fn findings_that_are_not_repaired_change_nothing() {
    let scratch = with_dangling_names();
    let before = content(&scratch);
    assert_eq!(check(&scratch.pools[0], Repair::No).findings.len(), 5);
    assert!(content(&scratch) == before);
}

#[test]
fn a_repair_can_be_taken_back() {
    let (scratch, undo, before) = repaired();
    let restored = undo_repair(&scratch.pools[1], &undo).expect("undo");
    assert!(restored > 0);
    assert!(content(&scratch) == before);
    assert_eq!(check(&scratch.pools[0], Repair::No).findings.len(), 5);
    // Again, as after an undo that was cut off.
    assert_eq!(
        undo_repair(&scratch.pools[0], &undo).expect("undo"),
        restored
    );
    assert!(content(&scratch) == before);
}

#[test]
fn a_repair_cut_off_anywhere_can_be_taken_back() {
    let (scratch, undo, before) = repaired();
    let after = content(&scratch);
    for keep in [1, 2, 3, 5, 7] {
        // Every so many blocks of the repair did not arrive.
        for (path, (old, new)) in scratch.pools.iter().zip(before.iter().zip(&after)) {
            let blocks = old.chunks(4096).zip(new.chunks(4096)).enumerate();
            let mixed = blocks.flat_map(|(block, (old, new))| match block % keep {
                0 => old.to_vec(),
                _ => new.to_vec(),
            });
            std::fs::write(path, mixed.collect::<Vec<u8>>()).expect("write");
        }
        undo_repair(&scratch.pools[0], &undo).expect("undo");
        assert!(content(&scratch) == before);
    }
}

#[test]
fn a_repair_is_not_taken_back_from_a_volume_used_since() {
    let (scratch, undo, _) = repaired();
    let volume = scratch.attach();
    volume
        .create(InodeNumber::ROOT, b"new", &FILE)
        .expect("create");
    drop(volume);
    let now = content(&scratch);
    let error = undo_repair(&scratch.pools[0], &undo).expect_err("used since");
    assert_eq!(error.errno, libc::EBUSY);
    assert!(error.message.contains("changed after"), "{error}");
    assert!(content(&scratch) == now);
    let volume = scratch.attach();
    assert!(volume.lookup(InodeNumber::ROOT, b"new").is_ok());
}

#[test]
fn existing_undo_file_prevents_repair() {
    let scratch = with_dangling_names();
    let before = content(&scratch);
    let undo = scratch.directory.path().join("undo");
    std::fs::write(&undo, b"mine").expect("write");
    let repair = Repair::Yes { undo: Some(&undo) };
    let error = check_volume(&scratch.pools[0], repair, &mut |_, _| {}).expect_err("exists");
    assert!(error.message.contains("another undo file"), "{error}");
    assert_eq!(std::fs::read(&undo).expect("read"), b"mine");
    assert!(content(&scratch) == before);
}

#[test]
fn a_damaged_or_foreign_undo_file_is_refused() {
    let (scratch, undo, _) = repaired();
    let now = content(&scratch);
    let good = std::fs::read(&undo).expect("read");
    let refused = |bytes: &[u8], what: &str| {
        std::fs::write(&undo, bytes).expect("write");
        let error = undo_repair(&scratch.pools[0], &undo).expect_err(what);
        assert!(!error.message.is_empty());
        assert!(content(&scratch) == now, "{what}");
    };
    for length in [0, 7, 64, 127, 128, 129, good.len() - 4096, good.len() - 1] {
        refused(&good[..length], &format!("cut to {length} bytes"));
    }
    refused(&[good.as_slice(), b"x"].concat(), "longer");
    for at in (0..good.len()).step_by(97).chain(0..200) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        refused(&bytes, &format!("byte {at} flipped"));
    }
    let (_other, foreign, _) = repaired();
    let foreign = std::fs::read(foreign).expect("read");
    refused(&foreign, "of another volume");
    let mut huge = good.clone();
    huge[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    refused(&huge, "count without end");
}
