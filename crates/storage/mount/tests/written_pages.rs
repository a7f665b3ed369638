//! Files that programs read and write through the kernel's page cache: what that saves, and that it is never stale.

#[path = "common/child.rs"]
mod child;
mod common;
use child::Served;
use common::{Mounted, Random, allocate, map, open, pattern};
use egeria_engine::{AttributeChange, FileReference, InodeNumber, Volume};
use egeria_harness::memory::Mapping;
use egeria_mount::{LeaseTiming, MountOptions};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const PAGES: usize = 256;

fn open_database(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).unwrap()
}

/// A file that stays open to be read and written, with all its pages cached.
fn database(path: &Path) -> File {
    let file = open_database(path);
    file.write_all_at(&pattern(1, PAGES * PAGE), 0).unwrap();
    read_all(&file);
    // The first answers about what the kernel has are not to be remembered.
    std::thread::sleep(Duration::from_millis(20));
    read_all(&file);
    file
}

fn read_all(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; PAGES * PAGE];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn an_open_database_costs_a_request_for_each_write() {
    let Some(mounted) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    let file = database(&mounted.path("database"));
    let mut random = Random(0x5eed_0001);
    let requests = || mounted.volume.counters().mount_requests;
    let mut part = [0; PAGE];
    let before = requests();
    for _ in 0..10_000 {
        let at = random.below(PAGES as u64) * PAGE as u64;
        file.read_exact_at(&mut part, at).unwrap();
    }
    assert!(requests() - before <= 10, "{}", requests() - before);
    let before = requests();
    for round in 0..1000 {
        let at = random.below(PAGES as u64) * PAGE as u64;
        let written = [round as u8; PAGE];
        file.write_all_at(&written, at).unwrap();
        file.read_exact_at(&mut part, at).unwrap();
        assert_eq!(part, written);
        for _ in 0..9 {
            let at = random.below(PAGES as u64 - 1) * PAGE as u64;
            file.read_exact_at(&mut part, at).unwrap();
        }
    }
    assert!(requests() - before <= 1020, "{}", requests() - before);
}

#[test]
fn pages_stay_when_a_database_is_closed() {
    let Some(mounted) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    let path = mounted.path("database");
    let file = database(&path);
    file.write_all_at(b"changed", 5000).unwrap();
    let expected = read_all(&file);
    drop(file);
    let requests = || mounted.volume.counters().mount_requests;
    let before = requests();
    for _ in 0..100 {
        assert!(read_all(&open_database(&path)) == expected);
        assert!(fs::read(&path).unwrap() == expected);
    }
    // Two opens and releases each, and few of the other kinds.
    assert!(requests() - before <= 430, "{}", requests() - before);
}

/// An open that dropped them would wait for pages that a write has locked, and the write may wait for a stopped process.
#[test]
fn other_handles_drop_no_pages_in_use() {
    let Some(mounted) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    let path = mounted.path("database");
    let file = database(&path);
    let expected = read_all(&file);
    let requests = || mounted.volume.counters().mount_requests;
    let before = requests();
    for _ in 0..10 {
        for flags in [
            libc::O_RDONLY,
            libc::O_RDWR,
            libc::O_WRONLY,
            libc::O_RDWR | libc::O_APPEND,
        ] {
            let other = open(&path, flags, 0).unwrap();
            assert!(read_all(&file) == expected);
            drop(other);
            assert!(read_all(&file) == expected);
        }
    }
    // An open and a release of each, and few of the other kinds.
    assert!(requests() - before <= 90, "{}", requests() - before);
}

#[test]
fn a_write_through_pages_has_reached_the_engine() {
    let Some(mounted) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    let file = database(&mounted.path("database"));
    let (ino, engine) = mounted.engine_file("database");
    let mut random = Random(0x5eed_0002);
    for round in 0..500 {
        let at = random.below((PAGES * PAGE) as u64);
        let data = pattern(round as u8, 1 + random.below(9000) as usize);
        file.write_all_at(&data, at).unwrap();
        let mut read = vec![0; data.len()];
        assert_eq!(mounted.volume.read(engine, at, &mut read), Ok(data.len()));
        assert!(read == data);
    }
    mounted.volume.close(ino);
}

#[test]
fn programs_that_only_write_or_append_have_no_pages() {
    let Some(mounted) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    let path = mounted.path("log");
    let file = |flags: i32| open(&path, flags | libc::O_CREAT, 0o600).unwrap();
    let (ino, engine) = {
        drop(file(libc::O_WRONLY));
        mounted.engine_file("log")
    };
    mounted.volume.close(ino);
    for flags in [
        libc::O_WRONLY,
        libc::O_RDWR | libc::O_APPEND,
        libc::O_RDWR | libc::O_DIRECT,
    ] {
        let file = file(flags);
        file.write_all_at(&pattern(3, 2 * PAGE), 0).unwrap();
        assert!(!mounted.volume.is_kernel_cached(engine), "{flags:#o}");
    }
    let database = file(libc::O_RDWR);
    assert!(mounted.volume.is_kernel_cached(engine));
    drop(database);
}

/// The file under test, all that may change it, and what it must contain.
struct Shared<'a> {
    volume: &'a Volume,
    path: &'a Path,
    by_other_mount: &'a Path,
    handles: [File; 2],
    ino: InodeNumber,
    engine: FileReference,
    content: Vec<u8>,
}

const MAX_BYTES: u64 = 40_000;

impl Shared<'_> {
    fn note_write(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        self.content.resize(self.content.len().max(end), 0);
        self.content[at..end].copy_from_slice(data);
    }

    fn change(&mut self, random: &mut Random, round: usize) {
        let at = random.below(MAX_BYTES);
        let data = pattern(round as u8, 1 + random.below(9000) as usize);
        let handle = &self.handles[random.below(2) as usize];
        match random.below(14) {
            0..5 => handle.write_all_at(&data, at).unwrap(),
            5 => {
                let writer = OpenOptions::new().write(true).open(self.path).unwrap();
                writer.write_all_at(&data, at).unwrap();
            }
            6 => {
                let data = &data[..data.len() / 10];
                let mut appending = OpenOptions::new().append(true).open(self.path).unwrap();
                std::io::Write::write_all(&mut appending, data).unwrap();
                self.content.extend(data);
                return;
            }
            7 => {
                handle.set_len(at).unwrap();
                self.content.resize(at as usize, 0);
                return;
            }
            8 => {
                let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                allocate(handle, punch, at, data.len() as u64).unwrap();
                let end = self.content.len();
                let (from, to) = ((at as usize).min(end), (at as usize + data.len()).min(end));
                self.content[from..to].fill(0);
                return;
            }
            9 | 10 => {
                let written = self.volume.write(self.engine, at, &data);
                assert_eq!(written, Ok(data.len()));
            }
            11 => {
                let change = AttributeChange {
                    size_bytes: Some(at),
                    ..AttributeChange::default()
                };
                self.volume.set_attributes(self.ino, &change).unwrap();
                self.content.resize(at as usize, 0);
                return;
            }
            12 => {
                let mut options = OpenOptions::new();
                let other = options.read(true).write(true).open(self.by_other_mount);
                other.unwrap().write_all_at(&data, at).unwrap();
            }
            _ => {
                let again = random.below(2) as usize;
                self.handles[again] = open_database(self.path);
                return;
            }
        }
        self.note_write(at as usize, &data);
    }

    fn compare(&self, random: &mut Random, round: usize) {
        for handle in &self.handles {
            let at = random.below(MAX_BYTES + 10_000);
            let mut read = vec![0xee; 1 + random.below(20_000) as usize];
            let bytes = handle.read_at(&mut read, at).unwrap();
            let from = (at as usize).min(self.content.len());
            let to = (from + read.len()).min(self.content.len());
            let expected = &self.content[from..to];
            if bytes > expected.len() {
                // The kernel ignored the answer with the new size: `leases.md` has the reason.
                assert!(read[expected.len()..bytes].iter().all(|byte| *byte == 0));
                fs::metadata(self.path).unwrap();
                let again = handle.read_at(&mut read, at).unwrap();
                assert_eq!(again, expected.len(), "round {round}");
            }
            assert!(read[..expected.len()] == *expected, "round {round}");
        }
        let bytes = fs::metadata(self.path).unwrap().len();
        assert_eq!(bytes, self.content.len() as u64, "round {round}");
        if round.is_multiple_of(8) {
            assert!(
                fs::read(self.path).unwrap() == self.content,
                "round {round}"
            );
        }
    }
}

#[test]
fn written_pages_are_never_stale() {
    let options = MountOptions {
        leases: LeaseTiming::AtOnce,
        ..MountOptions::default()
    };
    let Some(mounted) = Mounted::with(&options) else {
        return;
    };
    let other = tempfile::tempdir().unwrap();
    let second = egeria_mount::spawn(mounted.volume.clone(), other.path(), &options).unwrap();
    let mut random = Random(0x5eed_0003);
    // A lease that was recalled often rests for long, so there are many files.
    for file in 0..200 {
        let name = format!("file{file}");
        let path = mounted.path(&name);
        let handles = [open_database(&path), open_database(&path)];
        let (ino, engine) = mounted.engine_file(&name);
        // Held open past the kernel, a file would have no pages.
        mounted.volume.close(ino);
        let mut shared = Shared {
            volume: &mounted.volume,
            path: &path,
            by_other_mount: &other.path().join(&name),
            handles,
            ino,
            engine,
            content: Vec::new(),
        };
        for round in 0..20 {
            shared.change(&mut random, round);
            shared.compare(&mut random, round);
        }
    }
    second.unmount().unwrap();
}

/// Writes on both sides at once, to parts of their own of the same pages.
#[test]
fn writes_past_the_kernel_lose_nothing() {
    let options = MountOptions {
        leases: LeaseTiming::AtOnce,
        ..MountOptions::default()
    };
    let Some(mounted) = Mounted::with(&options) else {
        return;
    };
    const PARTS: usize = 64;
    const BYTES: usize = 1000;
    let path = mounted.path("file");
    let file = open_database(&path);
    file.write_all_at(&vec![0; 2 * PARTS * BYTES], 0).unwrap();
    let (ino, engine) = mounted.engine_file("file");
    mounted.volume.close(ino);
    let volume = &mounted.volume;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(0x5eed_0004);
            for round in 0..2000 {
                let part = random.below(PARTS as u64);
                let at = (2 * part + 1) * BYTES as u64;
                volume.write(engine, at, &[round as u8; BYTES]).unwrap();
                // A writer that was preempted may find its change a moment later.
                let begun = Instant::now();
                let mut read = [0; BYTES];
                while read != [round as u8; BYTES] {
                    file.read_exact_at(&mut read, at).unwrap();
                    assert!(begun.elapsed() < Duration::from_millis(200), "{round}");
                }
            }
        });
        let mut random = Random(0x5eed_0005);
        for round in 0..2000 {
            let at = 2 * random.below(PARTS as u64) * BYTES as u64;
            file.write_all_at(&[round as u8; BYTES], at).unwrap();
            let mut read = [0; BYTES];
            volume.read(engine, at, &mut read).unwrap();
            assert!(read == [round as u8; BYTES], "through the kernel, {round}");
        }
    });
    let mut read = vec![0; 2 * PARTS * BYTES];
    volume.read(engine, 0, &mut read).unwrap();
    assert!(fs::read(&path).unwrap() == read);
}

/// A database that a program maps as well as reads and writes it.
#[test]
fn stores_and_writes_through_pages_are_both_there() {
    const BYTES: usize = 10 * PAGE + 1000;
    let Some(served) = Served::new() else { return };
    let file = open_database(&served.path("file"));
    let (ino, engine) = served.engine_file("file");
    assert!(served.volume.is_kernel_cached(engine), "it has no pages");
    let mut expected = pattern(1, BYTES);
    file.write_all_at(&expected, 0).unwrap();
    let mapping = map(&file, 11 * PAGE, true);
    for page in 0..10 {
        let at = page * PAGE;
        mapping.set(at + 5, 77);
        file.write_all_at(&[page as u8; 100], at as u64 + 100)
            .unwrap();
        assert_eq!(mapping.get(at + 150), page as u8);
        mapping.set(at + 250, 78);
        (expected[at + 5], expected[at + 250]) = (77, 78);
        expected[at + 100..at + 200].fill(page as u8);
    }
    let mut read = vec![0; BYTES];
    file.read_exact_at(&mut read, 0).unwrap();
    assert!(read == expected, "before write-back");
    mapping.sync().unwrap();
    served.volume.read(engine, 0, &mut read).unwrap();
    assert!(read == expected, "after write-back");
    // What is stored behind the end is no data when the file grows with a gap.
    mapping.set(BYTES + 10, 79);
    file.write_all_at(b"end", 12 * PAGE as u64).unwrap();
    let mut gap = vec![1; 12 * PAGE - BYTES];
    file.read_exact_at(&mut gap, BYTES as u64).unwrap();
    assert!(gap.iter().all(|byte| *byte == 0), "the gap has data");
    mapping.sync().unwrap();
    served.volume.read(engine, BYTES as u64, &mut gap).unwrap();
    assert!(gap.iter().all(|byte| *byte == 0), "the gap got data");
    drop(mapping);
    served.volume.close(ino);
}

/// The kernel keeps the page of a write locked until the answer, if it has not read it. So nothing waits for that page.
#[test]
fn gaps_in_unread_pages_are_not_waited_for() {
    let Some(mounted) = Mounted::with(&MountOptions::default()) else {
        return;
    };
    let file = open_database(&mounted.path("file"));
    let begun = Instant::now();
    let mut expected = Vec::new();
    for record in 0..1000usize {
        expected.resize(record * 128, 0);
        expected.extend([record as u8; 100]);
        file.write_all_at(&[record as u8; 100], record as u64 * 128)
            .unwrap();
    }
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    assert!(fs::read(mounted.path("file")).unwrap() == expected);
    // The kernel drops all pages when it changes the size.
    for size in (0..100_000u64).step_by(9000) {
        file.set_len(size + 10).unwrap();
        file.write_all_at(b"x", size + 100).unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
}

/// A thread that unmaps stores keeps the memory map of its program locked for reading until the mount has written them back.
/// If another thread wants to change the map, the next reader of it waits for both. The mount looks at programs that open
/// files, and must not wait so.
#[test]
fn threads_open_files_while_another_unmaps_stores() {
    const OPENERS: usize = 8;
    const ROUNDS: usize = 300;
    const MAPPED: usize = 64 * PAGE;
    let Some(mut mount) = Served::new() else {
        return;
    };
    let file = open_database(&mount.path("mapped"));
    file.set_len(MAPPED as u64).unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let until_over = |work: Box<dyn Fn() + Send>| {
        let is_over = is_over.clone();
        std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                work();
            }
        })
    };
    let mut others: Vec<_> = (0..OPENERS)
        .map(|number| {
            let path = mount.path(&format!("opened{number}"));
            until_over(Box::new(move || drop(open_database(&path))))
        })
        .collect();
    others.push(until_over(Box::new(|| {
        drop(Mapping::of_zeros(PAGE).unwrap());
    })));
    let (done, is_done) = channel();
    let mapper = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            let mapping = map(&file, MAPPED, true);
            (0..MAPPED)
                .step_by(PAGE)
                .for_each(|at| mapping.set(at, round as u8));
            drop(mapping);
        }
        done.send(()).unwrap();
    });
    let ended = is_done.recv_timeout(Duration::from_secs(60));
    is_over.store(true, Ordering::Relaxed);
    if ended.is_err() {
        // Its threads cannot end before.
        mount.kill();
    }
    assert!(
        ended.is_ok(),
        "the mount waits for a program that waits for it"
    );
    mapper.join().unwrap();
    for other in others {
        other.join().unwrap();
    }
}
