//! Directories with many names: when their logs are compacted, and that names stay where they are.

use crate::common::*;
use egeria_engine::*;
use std::collections::BTreeMap;

const ROOT: InodeNumber = InodeNumber::ROOT;

fn pages(volume: &Volume) -> u64 {
    volume.attributes(ROOT).unwrap().blocks
}

fn make(volume: &Volume, name: &str) -> InodeNumber {
    volume.create(ROOT, name.as_bytes(), &FILE).unwrap().ino
}

/// Names by their cookies, with their inodes.
fn listed(volume: &Volume) -> BTreeMap<u64, (Vec<u8>, InodeNumber)> {
    let mut found = BTreeMap::new();
    let mut emit = |entry: &DirectoryEntry<'_>| {
        if !matches!(entry.name, b"." | b"..") {
            found.insert(entry.cookie, (entry.name.to_vec(), entry.ino));
        }
        true
    };
    volume.read_directory(ROOT, 0, &mut emit).unwrap();
    found
}

fn assert_found(volume: &Volume, names: &BTreeMap<u64, (Vec<u8>, InodeNumber)>) {
    for (name, ino) in names.values() {
        let found = volume.lookup(ROOT, name).map(|found| found.ino);
        assert_eq!(found, Ok(*ino), "{}", String::from_utf8_lossy(name));
    }
}

/// Names come and go until the log is compacted.
fn compact(volume: &Volume) {
    let mut before = pages(volume);
    loop {
        make(volume, "passing");
        volume.unlink(ROOT, b"passing").unwrap();
        let now = pages(volume);
        if now < before {
            return;
        }
        assert!(now < 1000, "never compacted");
        before = now;
    }
}

#[test]
fn a_log_without_history_is_not_compacted() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let mut before = 0;
    for at in 0..6300u64 {
        make(&volume, &format!("name{at}"));
        let now = pages(&volume);
        assert!(now == before || now == before.max(1) + 1 || before == 0);
        before = now;
    }
    // One line each, 63 in a page.
    assert_eq!(before, 100);
}

#[test]
fn compaction_keeps_names_and_their_order() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    for at in 0..1500 {
        // Of one line, of two and of five.
        let length = [1, 40, 230][at % 3];
        make(&volume, &format!("{at:0>length$}"));
        if at % 5 > 0 {
            volume
                .unlink(ROOT, format!("{at:0>length$}").as_bytes())
                .unwrap();
        }
    }
    let names = listed(&volume);
    assert_eq!(names.len(), 300);
    for _ in 0..3 {
        compact(&volume);
        assert_eq!(listed(&volume), names);
        assert_found(&volume, &names);
    }
    // The table grows from words that compaction changed.
    for at in 0..3000 {
        make(&volume, &format!("later{at}"));
    }
    assert_found(&volume, &names);
    assert_found(&volume, &listed(&volume));
    for at in 0..3000 {
        let name = format!("later{at}");
        volume.unlink(ROOT, name.as_bytes()).unwrap();
    }
    drop(volume);
    let volume = scratch.attach();
    assert_eq!(listed(&volume), names);
    assert_found(&volume, &names);
    drop(volume);
    scratch.assert_clean();
}
