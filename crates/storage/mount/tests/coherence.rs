//! Mappings, `sendfile` and programs from the mount see what everybody writes, and everybody
//! sees what is stored through mappings. Each rule of module `coherence` has a test that fails
//! without it.

#[path = "common/child.rs"]
mod child;
mod common;
use child::Served;
use common::*;
use egeria_engine::{CallerSource, Errno, FileReference, InodeNumber};
use egeria_harness::fork::Forked;
use egeria_harness::memory::Mapping;
use egeria_mount::MountOptions;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// A file of 64 KiB, held open here and in the engine.
struct Shared {
    file: File,
    ino: InodeNumber,
    engine: FileReference,
    // Last, to be unmounted when nothing is open.
    mount: Served,
}

const BYTES: usize = 65_536;

impl Shared {
    /// The file is opened directly, so only mappings and the like have pages.
    fn new() -> Option<Shared> {
        Shared::with(&MountOptions {
            page_cache_bytes: Some(0),
            ..MountOptions::default()
        })
    }

    fn with(options: &MountOptions) -> Option<Shared> {
        let mount = Served::with(options)?;
        fs::write(mount.path("file"), pattern(1, BYTES)).unwrap();
        let file = File::options()
            .read(true)
            .write(true)
            .open(mount.path("file"))
            .unwrap();
        let (ino, engine) = mount.engine_file("file");
        Some(Shared {
            mount,
            file,
            ino,
            engine,
        })
    }

    fn cached(&self) -> bool {
        self.mount.volume.is_kernel_cached(self.engine)
    }

    /// A write as the preload library makes it: past the kernel, unless told to go through it.
    fn write_like_preload(&self, offset: u64, data: &[u8]) -> bool {
        let volume = &self.mount.volume;
        let direct = volume.write_direct(self.engine, offset, data.into());
        match direct {
            Ok(written) => assert_eq!(written, data.len()),
            Err(error) => {
                assert_eq!(error, Errno(libc::EAGAIN));
                self.file.write_all_at(data, offset).unwrap();
            }
        }
        direct.is_ok()
    }

    fn read_engine(&self, offset: u64, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        let read = self
            .mount
            .volume
            .read(self.engine, offset, &mut data)
            .unwrap();
        data.truncate(read);
        data
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.mount.volume.close(self.ino);
    }
}

/// `sendfile` of a range into a file elsewhere.
fn sendfile(file: &File, offset: u64, bytes: usize) -> Vec<u8> {
    let target = tempfile::tempfile().unwrap();
    let (mut at, mut sent) = (offset, 0);
    while sent < bytes {
        match rustix::fs::sendfile(&target, file, Some(&mut at), bytes - sent).unwrap() {
            0 => break,
            part => sent += part,
        }
    }
    let mut data = vec![0; sent];
    target.read_exact_at(&mut data, 0).unwrap();
    data
}

#[test]
fn ordinary_reads_and_writes_leave_no_mark() {
    let Some(shared) = Shared::new() else { return };
    let mut data = vec![0; BYTES];
    shared.file.read_exact_at(&mut data, 0).unwrap();
    shared.file.write_all_at(b"x", 0).unwrap();
    assert!(!shared.cached());
    assert!(shared.write_like_preload(0, b"direct"));
}

/// The mark is there before the first page is, and the pages' users go through the kernel.
#[test]
fn a_mapping_marks_the_inode_before_it_is_answered() {
    let Some(shared) = Shared::new() else { return };
    let mapping = map(&shared.file, BYTES, false);
    assert!(!shared.cached());
    assert_eq!(mapping.get(5), pattern(1, 6)[5]);
    assert!(shared.cached());
    let mut byte = [0];
    let to = byte[..].as_mut().into();
    let read = shared.mount.volume.read_direct(shared.engine, 0, to);
    assert_eq!(read, Err(Errno(libc::EAGAIN)));
}

#[test]
fn a_mapping_sees_writes_through_the_mount() {
    let Some(shared) = Shared::new() else { return };
    let mapping = map(&shared.file, BYTES, false);
    let other = File::options()
        .write(true)
        .open(shared.mount.path("file"))
        .unwrap();
    for round in 0..50u8 {
        assert_eq!(mapping.load(mapping.bytes()).len(), BYTES);
        other.write_all_at(&[round], 4096).unwrap();
        assert_eq!(mapping.get(4096), round);
        shared.file.write_all_at(&[round; 9000], 20_000).unwrap();
        assert_eq!(mapping.get(20_000), round);
        assert_eq!(mapping.get(28_999), round);
    }
}

/// Preload's writers are sent through the kernel while there are pages, so a mapping sees them.
#[test]
fn a_mapping_sees_writes_of_preload() {
    let Some(shared) = Shared::new() else { return };
    let mapping = map(&shared.file, BYTES, false);
    for round in 0..50u8 {
        let direct = shared.write_like_preload(100, &[round]);
        assert_eq!(mapping.get(100), round);
        assert_eq!(direct, round == 0);
    }
}

/// Writers who use the engine in the mount's process, past the mount, invalidate.
#[test]
fn pages_go_when_the_mounts_own_process_invalidates() {
    let Some(mount) = Mounted::new() else { return };
    fs::write(mount.path("file"), pattern(1, BYTES)).unwrap();
    let file = File::open(mount.path("file")).unwrap();
    let (ino, engine) = mount.engine_file("file");
    for round in 0..20u8 {
        sendfile(&file, 8192, 1);
        mount.volume.write(engine, 8192, &[round]).unwrap();
        mount.handle().invalidate(ino, engine, 8192, 1);
        eventually("what the engine wrote is sent", || {
            sendfile(&file, 8192, 1) == [round]
        });
    }
    mount.volume.close(ino);
}

/// ... and if they do not, the mount notices.
#[test]
fn a_mapping_sees_unannounced_writes_in_a_while() {
    let Some(shared) = Shared::new() else { return };
    let mapping = map(&shared.file, BYTES, false);
    mapping.load(mapping.bytes());
    shared
        .mount
        .volume
        .write(shared.engine, 8192, b"someone!")
        .unwrap();
    eventually("the mount looks around", || mapping.get(8192) == b's');
}

/// A reader that faults pages in all the time never keeps an old one after a write returned:
/// the answer to the writer waits for the invalidation. Large writes, so that pages are read
/// again between the kernel's own invalidation and the change.
#[test]
fn a_busy_mapping_never_shows_the_past() {
    let Some(shared) = Shared::new() else { return };
    const LARGE: usize = 1 << 20;
    const LAST: usize = LARGE - 1;
    shared.file.write_all_at(&[0; LARGE], 0).unwrap();
    let written = AtomicU8::new(0);
    let done = AtomicBool::new(false);
    let reader = File::open(shared.mount.path("file")).unwrap();
    let mapping = map(&reader, LARGE, false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=250u8 {
                shared.file.write_all_at(&[round; LARGE], 0).unwrap();
                written.store(round, Ordering::SeqCst);
            }
            done.store(true, Ordering::SeqCst);
        });
        while !done.load(Ordering::SeqCst) {
            let before = written.load(Ordering::SeqCst);
            let seen = mapping.get(LAST);
            if seen < before {
                done.store(true, Ordering::SeqCst);
                panic!("the past: {seen} after {before} was written");
            }
        }
    });
    assert_eq!(mapping.get(LAST), 250);
}

#[test]
fn stores_are_seen_by_reads_and_after_msync_by_the_engine() {
    let Some(shared) = Shared::new() else { return };
    let mapping = map(&shared.file, BYTES, true);
    mapping.set(10, 0xA5);
    let mut byte = [0];
    shared.file.read_exact_at(&mut byte, 10).unwrap();
    assert_eq!(byte, [0xA5]);
    mapping.set(50_000, 0x5A);
    mapping.sync().unwrap();
    assert_eq!(shared.read_engine(50_000, 1), [0x5A]);
    mapping.set(50_001, 0x77);
    drop(mapping);
    eventually("a store reaches the pool after munmap", || {
        shared.read_engine(50_001, 1) == [0x77]
    });
}

/// Stores into one page while others write around them: nothing is lost on either side.
#[test]
fn stores_and_writes_to_one_page_both_survive() {
    let Some(shared) = Shared::new() else { return };
    let mapping = map(&shared.file, BYTES, true);
    for round in 1..100u8 {
        mapping.set(0, round);
        shared.file.write_all_at(&[round], 2000).unwrap();
        assert_eq!((mapping.get(0), mapping.get(2000)), (round, round));
    }
    mapping.sync().unwrap();
    assert_eq!(shared.read_engine(0, 1), [99]);
    assert_eq!(shared.read_engine(2000, 1), [99]);
}

/// A page written back must not bring back what was cut off past the kernel.
#[test]
fn write_back_does_not_grow_the_file() {
    let Some(shared) = Shared::new() else { return };
    let mapping = map(&shared.file, BYTES, true);
    mapping.set(60_000, 1);
    let cut = egeria_engine::AttributeChange {
        size_bytes: Some(100),
        ..Default::default()
    };
    shared
        .mount
        .volume
        .set_attributes(shared.ino, &cut)
        .unwrap();
    mapping.sync().unwrap();
    assert_eq!(shared.mount.volume.size_bytes(shared.engine), Ok(100));
}

#[test]
fn a_mapping_sees_truncation_and_holes() {
    let Some(shared) = Shared::new() else { return };
    let mapping = map(&shared.file, BYTES, true);
    mapping.load(mapping.bytes());
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    allocate(&shared.file, mode, 4096, 8192).unwrap();
    assert!((4096..12_288).all(|at| mapping.get(at) == 0));
    shared.file.set_len(20_000).unwrap();
    shared.file.set_len(BYTES as u64).unwrap();
    assert!((20_000..BYTES).all(|at| mapping.get(at) == 0));
    assert_eq!(mapping.get(19_999), pattern(1, BYTES)[19_999]);
}

/// A mapping that dirties pages all the time, while others truncate, write and copy: nobody
/// waits for ever, though one thread serves all.
#[test]
fn invalidations_do_not_deadlock() {
    let options = MountOptions {
        threads: 1,
        ..MountOptions::default()
    };
    let Some(shared) = Shared::with(&options) else {
        return;
    };
    let done = AtomicBool::new(false);
    let mapping = map(&shared.file, BYTES, true);
    std::thread::scope(|scope| {
        let (mapping, done, shared) = (&mapping, &done, &shared);
        scope.spawn(move || {
            // The first page stays inside the file throughout.
            for at in (0..4096).cycle() {
                mapping.set(at, at as u8);
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        });
        let writers: Vec<_> = (0..3u64)
            .map(|writer| {
                scope.spawn(move || {
                    for round in 0..60u64 {
                        shared.file.write_all_at(&[9; 5000], writer * 3000).unwrap();
                        shared.file.set_len(30_000 + round * 100).unwrap();
                        assert_eq!(sendfile(&shared.file, 0, 4096).len(), 4096);
                        shared.file.sync_all().unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// The mark goes with the last handle that has pages, and later changes past the kernel are
/// seen by the next mapping.
#[test]
fn the_mark_clears_after_the_last_release() {
    let Some(shared) = Shared::new() else { return };
    // Far enough apart that neither reads the other's pages ahead.
    const FAR: usize = 4 << 20;
    shared.file.set_len(FAR as u64 + 4096).unwrap();
    let open = || File::open(shared.mount.path("file")).unwrap();
    let (one, two) = (open(), open());
    let far = |file| map(file, FAR + 4096, false);
    let (first, second) = (far(&one), far(&two));
    first.get(0);
    second.get(FAR);
    drop((first, one));
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(shared.cached(), "the second mapping still has pages");
    second.get(FAR);
    drop((second, two));
    eventually("the mark is taken off", || !shared.cached());
    for round in 0..20u8 {
        assert!(shared.write_like_preload(0, &[round]));
        let file = File::open(shared.mount.path("file")).unwrap();
        assert_eq!(map(&file, 4096, false).get(0), round);
        drop(file);
        eventually("the mark is taken off again", || !shared.cached());
    }
}

/// Pages that a closed handle left are not served to one that was open all the time.
#[test]
fn pages_of_a_closed_handle_are_gone() {
    let Some(shared) = Shared::new() else { return };
    let open = || File::open(shared.mount.path("file")).unwrap();
    let (mut always_open, mut next) = (open(), open());
    for round in 0..20u8 {
        let closed = open();
        assert_eq!(sendfile(&closed, 0, BYTES).len(), BYTES);
        drop(closed);
        eventually("the mark is taken off", || !shared.cached());
        assert!(shared.write_like_preload(100, &[round]));
        assert_eq!(sendfile(&always_open, 100, 1), [round]);
        always_open = next;
        next = open();
        eventually("the mark is taken off again", || !shared.cached());
    }
}

/// Pages are read for the first time while preload writes: whoever comes first, the mapping
/// ends with what was written. The write comes at every moment of the reading.
#[test]
fn a_first_page_racing_with_a_direct_write_is_not_stale() {
    let Some(shared) = Shared::new() else { return };
    const LARGE: usize = 128 << 10;
    shared.file.write_all_at(&[0; LARGE], 0).unwrap();
    for round in 0..300u32 {
        let file = File::open(shared.mount.path("file")).unwrap();
        let mapping = map(&file, LARGE, false);
        let value = (round % 251) as u8;
        let start = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let (start, mapping) = (&start, &mapping);
            scope.spawn(move || {
                start.wait();
                mapping.get(0);
            });
            start.wait();
            let moment = std::time::Instant::now();
            while moment.elapsed() < std::time::Duration::from_nanos(500 * u64::from(round)) {
                std::hint::spin_loop();
            }
            shared.write_like_preload(0, &[value]);
        });
        assert_eq!(mapping.get(0), value, "round {round}");
        drop((mapping, file));
        eventually("the mark is taken off", || !shared.cached());
    }
}

/// What was cut off a file that had grown past the kernel, which therefore sees no change of
/// size and keeps its page, does not come back when the file grows.
#[test]
fn a_mapping_forgets_what_was_cut_off_past_the_kernel() {
    let Some(shared) = Shared::new() else { return };
    shared.file.set_len(100).unwrap();
    let mapping = map(&shared.file, 4096, false);
    shared
        .mount
        .volume
        .write(shared.engine, 100, &[7; 100])
        .unwrap();
    assert_eq!(mapping.get(150), 7);
    shared.file.set_len(100).unwrap();
    shared.file.set_len(200).unwrap();
    eventually("the page is gone", || mapping.get(150) == 0);
}

/// A mapping outlives the descriptor and the name, and so does the mark.
#[test]
fn a_mapping_keeps_the_mark_after_close_and_unlink() {
    let Some(mount) = Served::new() else { return };
    fs::write(mount.path("file"), pattern(1, BYTES)).unwrap();
    let (ino, engine) = mount.engine_file("file");
    let mapping = map(&File::open(mount.path("file")).unwrap(), BYTES, false);
    mapping.get(0);
    fs::remove_file(mount.path("file")).unwrap();
    assert!(mount.volume.is_kernel_cached(engine));
    assert_eq!(mapping.load(mapping.bytes()), pattern(1, BYTES));
    drop(mapping);
    eventually("the mark is taken off", || {
        !mount.volume.is_kernel_cached(engine)
    });
    mount.volume.close(ino);
}

/// Pages that `sendfile` left behind are not sent again after somebody wrote past the kernel.
#[test]
fn sendfile_is_never_stale() {
    let Some(shared) = Shared::new() else { return };
    for round in 0..30u8 {
        let direct = shared.write_like_preload(4000, &[round; 200]);
        assert_eq!(
            direct,
            round == 0,
            "pages of the first sendfile are still there"
        );
        assert_eq!(sendfile(&shared.file, 4000, 200), [round; 200]);
    }
}

/// `mmap_of_hole`: mapping a sparse region.
#[test]
fn mmap_of_hole() {
    let Some(mount) = Served::new() else { return };
    let mut options = File::options();
    let file = options
        .read(true)
        .write(true)
        .create_new(true)
        .open(mount.path("hole"))
        .unwrap();
    file.set_len(1 << 20).unwrap();
    let mapping = map(&file, 1 << 20, true);
    assert!((0..1 << 20).step_by(4096).all(|at| mapping.get(at) == 0));
    mapping.set(500_000, 42);
    mapping.sync().unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, 500_000).unwrap();
    assert_eq!(byte, [42]);
}

/// `non_preloaded_reader`: a process without preload reads size and data while others write
/// past the kernel.
#[test]
fn non_preloaded_reader() {
    let Some(shared) = Shared::new() else { return };
    for round in 0..20u8 {
        let end = shared.mount.volume.size_bytes(shared.engine).unwrap();
        shared
            .mount
            .volume
            .append(shared.engine, &[round; 1000])
            .unwrap();
        let path = shared.mount.path("file");
        let output = std::process::Command::new("tail")
            .args(["-c", "1"])
            .arg(&path)
            .output();
        assert_eq!(output.unwrap().stdout, [round]);
        assert_eq!(fs::metadata(&path).unwrap().len(), end + 1000);
    }
}

fn program(mount: &Served, text: &str) -> PathBuf {
    let path = mount.path("program");
    fs::write(&path, format!("#!/bin/sh\necho {text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn programs_run_from_the_mount_and_are_never_stale() {
    let Some(mount) = Served::new() else { return };
    let run = |path: &PathBuf| std::process::Command::new(path).output().unwrap().stdout;
    for round in 0..5 {
        let path = program(&mount, &format!("round {round}"));
        assert_eq!(run(&path), format!("round {round}\n").as_bytes());
    }
    let binary = mount.path("binary");
    fs::copy("/bin/echo", &binary).unwrap();
    let (ino, engine) = mount.engine_file("binary");
    let output = std::process::Command::new(&binary)
        .arg("hello")
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"hello\n");
    eventually("the mark of an ended program is taken off", || {
        !mount.volume.is_kernel_cached(engine)
    });
    let program = fs::read("/bin/true").unwrap();
    let cut = egeria_engine::AttributeChange {
        size_bytes: Some(0),
        ..Default::default()
    };
    mount.volume.set_attributes(ino, &cut).unwrap();
    mount.volume.write(engine, 0, &program).unwrap();
    let output = std::process::Command::new(&binary)
        .arg("hello")
        .output()
        .unwrap();
    assert_eq!((output.status.success(), output.stdout), (true, Vec::new()));
    mount.volume.close(ino);
}

/// Writing a file from a mapping of itself.
#[test]
fn a_file_can_be_written_from_its_own_mapping() {
    let Some(shared) = Shared::new() else { return };
    let mapping = map(&shared.file, BYTES, true);
    let mut expected = pattern(1, BYTES);
    for shift in [1usize, 100, 4096, 5000] {
        // SAFETY: the first half of the mapping.
        let source = unsafe { std::slice::from_raw_parts(mapping.address(0), 30_000) };
        shared.file.write_all_at(source, shift as u64).unwrap();
        expected.copy_within(0..30_000, shift);
        assert!(
            mapping.load(mapping.bytes()) == expected,
            "shift {shift}: the mapping"
        );
        assert!(
            shared.read_engine(0, BYTES) == expected,
            "shift {shift}: the pool"
        );
    }
}

/// A write through the mount waits for its inode, whose holder waits for memory; meanwhile the kernel gets a page of the
/// file, and a program stores into it. The page comes back when the write is done, and must not undo it.
#[test]
fn a_write_that_waits_is_not_undone_by_a_page_given_meanwhile() {
    use std::time::Duration;
    let (Some(shared), Some(slow)) = (Shared::new(), Served::new()) else {
        return;
    };
    fs::write(slow.path("source"), pattern(2, 4096)).unwrap();
    let source = File::open(slow.path("source")).unwrap();
    let unread = map(&source, 4096, false);
    let mapping = map(&shared.file, BYTES, true);
    slow.stop();
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| {
            // SAFETY: a mapping that lives, read by guarded routines.
            let source = unsafe { CallerSource::new(unread.address(0), 100) };
            shared
                .mount
                .volume
                .write_direct(shared.engine, 40_010, source)
        });
        std::thread::sleep(Duration::from_millis(100));
        let writer = scope.spawn(|| shared.file.write_all_at(&[9; 100], 0));
        std::thread::sleep(Duration::from_millis(100));
        let waits = !holder.is_finished() && !writer.is_finished();
        let before = mapping.get(5);
        mapping.set(2000, 77);
        slow.go_on();
        writer.join().unwrap().unwrap();
        let held = holder.join().unwrap();
        assert!(
            held == Ok(100) || held == Err(Errno(libc::EAGAIN)),
            "{held:?}"
        );
        assert!(waits, "nobody waited, so nothing is proved");
        assert_eq!(before, pattern(1, 6)[5]);
    });
    mapping.sync().unwrap();
    let now = shared.read_engine(0, 4096);
    assert_eq!(now[..100], [9; 100], "the write is gone");
    assert_eq!(now[2000], 77, "the store is gone");
    assert_eq!(now[100..2000], pattern(1, 4096)[100..2000]);
}

/// Pages are taken out of the kernel beside writes, and wait for pages that are being written back. A mount that dies then
/// leaves nobody waiting for its answers.
#[test]
fn a_killed_mount_leaves_nobody_in_the_kernel() {
    const USERS: u8 = 4;
    for round in 0..12 {
        let Some(mut served) = Served::new() else {
            return;
        };
        let path = served.path("file");
        fs::write(&path, pattern(1, BYTES)).unwrap();
        // Ends with the mount, by SIGBUS or an error.
        let use_file = |user: u8| -> std::io::Result<()> {
            let file = File::options().read(true).write(true).open(&path)?;
            for turn in 0u64.. {
                let mapping = Mapping::of_file(&file, BYTES, true)?;
                let at = (turn * 4096) % BYTES as u64;
                mapping.set(at as usize + usize::from(user), user);
                file.write_all_at(&[user; 100], (at + 2000) % BYTES as u64)?;
            }
            Ok(())
        };
        let fork = |user| Forked::run_well(|| use_file(user).is_ok()).unwrap();
        let users: Vec<Forked> = (0..USERS).map(fork).collect();
        std::thread::sleep(std::time::Duration::from_millis(20 + 5 * round));
        served.kill();
        for user in &users {
            let stat = format!("/proc/{}/stat", user.id());
            eventually("a program on a dead mount ends", || {
                fs::read_to_string(&stat).unwrap().contains(") Z ")
            });
            user.wait();
        }
    }
}
