//! Reading a volume in use: damage is found and named, and nothing else is.

use crate::common::{DIRECTORY, FILE, Scratch};
use egeria_engine::failpoint::{Resource, with_failures};
use egeria_engine::*;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

fn scrub(volume: &Volume) -> ScrubReport {
    volume
        .scrub(true, &mut |_| ControlFlow::Continue(()))
        .expect("scrub")
}

fn write(volume: &Volume, directory: InodeNumber, name: &[u8], bytes: usize) -> InodeNumber {
    let made = volume.create_open(directory, name, &FILE).expect("create");
    let file = volume.open(made.ino, None).expect("open");
    volume.write(file, 0, &vec![0xA5; bytes]).expect("write");
    volume.close(made.ino);
    volume.close(made.ino);
    made.ino
}

/// Two directories, one of them large: its log has many pages.
fn filled() -> (Scratch, std::sync::Arc<Volume>, InodeNumber) {
    let scratch = Scratch::new(2, 32 << 20);
    let volume = scratch.attach();
    let root = InodeNumber::ROOT;
    let make = |name| volume.create(root, name, &DIRECTORY).expect("mkdir");
    let (small, large) = (make(b"small").ino, make(b"large").ino);
    for index in 0..3000u32 {
        let name = format!("a name that takes two lines of the log, number {index}");
        volume
            .create(large, name.as_bytes(), &FILE)
            .expect("create");
    }
    write(&volume, small, b"file", 300_000);
    (scratch, volume, small)
}

/// Flips a bit behind the header of every page of an inode's log, past the mapping.
fn damage_log(scratch: &Scratch, ino: InodeNumber) {
    for path in &scratch.pools {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(path)
            .expect("open");
        let mut bytes = std::fs::read(path).expect("read");
        for at in (0..bytes.len()).step_by(4096) {
            let page = &mut bytes[at..at + 4096];
            if page[..4] == 0x4547_4c50u32.to_le_bytes() && page[16..24] == ino.0.to_le_bytes() {
                file.write_all_at(&[page[64 + 20] ^ 4], at as u64 + 64 + 20)
                    .expect("write");
            }
        }
    }
}

#[test]
fn everything_is_read_and_nothing_is_wrong() {
    let (_scratch, volume, _) = filled();
    let report = scrub(&volume);
    assert_eq!(report.findings, []);
    assert!(report.complete);
    assert_eq!(report.inodes, 3000 + 4);
    assert_eq!(report.data_bytes, 300_000u64.next_multiple_of(4096));
    assert!(report.metadata_bytes > 3000 * 128, "{report:?}");
    let metadata = volume
        .scrub(false, &mut |_| ControlFlow::Continue(()))
        .expect("scrub");
    assert_eq!((metadata.data_bytes, metadata.inodes), (0, report.inodes));
}

#[test]
fn scrub_asks_for_admission_to_what_it_reads() {
    let (_scratch, volume, _) = filled();
    let pools = volume.pools().len();
    let limit = |limit| {
        for pool in 0..pools {
            let pool = egeria_media::PoolIndex(pool as u8);
            volume
                .limit_admission(pool, limit, LimitedBy::Hand)
                .expect("limit");
        }
    };
    let asked = || {
        let asked = volume.counters().asked;
        asked.iter().fold((0, 0), |(reads, bytes), pool| {
            (reads + pool.requests - pool.writes, bytes + pool.bytes)
        })
    };
    limit(std::num::NonZeroU32::new(1));
    let before = asked();
    assert_eq!(scrub(&volume).findings, []);
    let after = asked();
    assert!(
        after.0 > before.0 && after.1 >= before.1 + 300_000,
        "{after:?}"
    );
    let now = volume.admission(false);
    assert!(
        now.iter()
            .all(|pool| (pool.admitted, pool.waiting) == (0, 0))
    );
    limit(None);
    scrub(&volume);
    assert_eq!(asked(), after, "nobody is asked without a limit");
}

#[test]
fn scrub_reads_media_and_names_damage_by_path() {
    let (scratch, volume, small) = filled();
    let ino = volume.lookup(small, b"file").expect("lookup").ino;
    damage_log(&scratch, ino);
    // Whoever uses it has its index in the session.
    let file = volume.open(ino, None).expect("open");
    let mut bytes = [0; 10];
    assert_eq!(volume.read(file, 0, &mut bytes), Ok(10));
    let report = scrub(&volume);
    assert!(report.complete);
    let [finding] = &report.findings[..] else {
        panic!("{report:?}");
    };
    assert_eq!(finding.affects, "/small/file");
    assert!(finding.what.contains("log entry"), "{finding:?}");
    assert_eq!(volume.read(file, 0, &mut bytes), Ok(10));
}

#[test]
fn a_large_log_is_believed_damaged_only_where_it_is() {
    let (scratch, volume, _) = filled();
    let root = InodeNumber::ROOT;
    let large = volume.lookup(root, b"large").expect("lookup").ino;
    damage_log(&scratch, large);
    let report = scrub(&volume);
    let affected: Vec<&str> = report
        .findings
        .iter()
        .map(|finding| finding.affects.as_str())
        .collect();
    assert_eq!(affected, ["/large"]);
}

#[test]
fn a_damaged_superblock_copy_is_found() {
    let (scratch, volume, _) = filled();
    let file = std::fs::File::options()
        .write(true)
        .open(&scratch.pools[1])
        .expect("open");
    file.write_all_at(&[9; 64], 2 * 4096 + 100).expect("write");
    let report = scrub(&volume);
    assert_eq!(report.findings.len(), 1);
    assert!(
        report.findings[0].what.contains("superblock copy 1"),
        "{report:?}"
    );
}

#[test]
fn data_that_cannot_be_read_is_found() {
    egeria_media::guard::install().expect("guard");
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    for index in 0..24u32 {
        let name = format!("file{index}").into_bytes();
        write(&volume, InodeNumber::ROOT, &name, 1 << 20);
    }
    let file = std::fs::File::options()
        .write(true)
        .open(&scratch.pools[0])
        .expect("open");
    file.set_len(20 << 20).expect("truncate");
    let report = scrub(&volume);
    file.set_len(32 << 20).expect("grow");
    assert!(report.complete);
    // "inode 9: bytes 4096 to 8191 (…) cannot be read": neighbours are one finding.
    let unreadable = |finding: &Finding| {
        assert!(finding.what.ends_with("cannot be read"), "{finding:?}");
        let mut words = finding.what.split_whitespace().skip(3).step_by(2);
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(number()?.abs_diff(number()?) + 1)
    };
    let named = |finding: &Finding| finding.affects.starts_with("/file");
    let unreadable: u64 = report.findings.iter().filter_map(unreadable).sum();
    assert!(unreadable > 4 << 20 && unreadable < 8 << 20, "{unreadable}");
    assert!(
        report.findings.iter().all(named),
        "{:?}",
        report.findings[0]
    );
}

#[test]
fn who_changes_everything_meanwhile_is_no_damage() {
    let (_scratch, volume, small) = filled();
    let root = InodeNumber::ROOT;
    let large = volume.lookup(root, b"large").expect("lookup").ino;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3u32 {
            let (volume, done) = (&volume, &done);
            scope.spawn(move || {
                for turn in 0.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    match thread {
                        0 => fill_and_empty(volume, large),
                        _ => churn(volume, small, thread, turn),
                    }
                }
            });
        }
        // Nothing may panic before the others know that it is over.
        let reports: Vec<_> = (0..20).map(|_| slowly(&volume)).collect();
        done.store(true, Ordering::Relaxed);
        for report in reports {
            let report = report.expect("scrub");
            assert_eq!(report.findings, []);
            assert!(report.complete);
        }
    });
}

/// A scrub during which the large log is replaced.
fn slowly(volume: &Volume) -> Result<ScrubReport, VolumeError> {
    volume.scrub(true, &mut |progress| {
        if progress.inodes < 8 {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        ControlFlow::Continue(())
    })
}

/// So many names come and go that the directory's log is compacted.
fn fill_and_empty(volume: &Volume, directory: InodeNumber) {
    let name = |index: u32| format!("comes and goes {index}").into_bytes();
    for index in 0..2000 {
        volume
            .create(directory, &name(index), &FILE)
            .expect("create");
    }
    for index in 0..2000 {
        volume.unlink(directory, &name(index)).expect("unlink");
    }
}

/// Makes, overwrites (so that logs are compacted), renames and deletes.
fn churn(volume: &Volume, directory: InodeNumber, thread: u32, turn: u32) {
    let name = |kind: &str| format!("{kind}{thread}-{}", turn % 5).into_bytes();
    let made = volume.create_open(directory, &name("new"), &FILE);
    if let Ok(made) = made {
        let file = volume.open(made.ino, None).expect("open");
        for round in 0..400u64 {
            let at = round * 7919 % 60 * 4096;
            volume.write(file, at, &[turn as u8; 5000]).expect("write");
        }
        volume.close(made.ino);
        volume.close(made.ino);
    }
    let root = InodeNumber::ROOT;
    let _ = volume.rename(
        directory,
        &name("new"),
        root,
        &name("old"),
        RenameMode::Replace,
    );
    if turn.is_multiple_of(3) {
        let _ = volume.unlink(root, &name("old"));
    }
}

#[test]
fn it_ends_when_its_caller_wants_and_says_so() {
    let (_scratch, volume, _) = filled();
    let mut calls = 0;
    let report = volume.scrub(true, &mut |progress| {
        calls += 1;
        assert!(progress.inodes <= progress.all_inodes);
        match calls {
            50 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    });
    let report = report.expect("scrub");
    assert!(!report.complete && report.inodes < 3004, "{report:?}");
    assert_eq!(calls, 50);
}

#[test]
fn what_there_is_no_memory_for_is_not_called_read() {
    let (scratch, volume, small) = filled();
    write(&volume, small, b"large", 1 << 20);
    drop(volume);
    // Nobody has it in the session.
    let volume = scratch.attach();
    let (report, asked) = with_failures(Resource::SessionPages, 0..u64::MAX, || scrub(&volume));
    assert!(asked > 0);
    assert_eq!(report.findings, []);
    assert!(report.complete && report.unread > 0, "{report:?}");
    let report = scrub(&volume);
    assert_eq!((report.unread, report.findings.len()), (0, 0));
}
