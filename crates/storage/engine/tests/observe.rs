//! What a watcher learns of threads: their bytes, files, and who shares.

use egeria_engine::*;
use std::path::PathBuf;
use std::sync::Arc;

struct Fixture {
    volume: Arc<Volume>,
    folder: PathBuf,
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let folder = PathBuf::from(format!(
            "/dev/shm/egeria-observe-{name}-{}",
            std::process::id()
        ));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("pool");
        let pool = PoolRequest {
            node: 0,
            path: path.clone(),
            bytes: Some(64 << 20),
        };
        create_volume(&[pool], &CreateOptions::default()).unwrap();
        let volume =
            Volume::attach(&path, AttachMode::CreateOrJoin, &AttachOptions::default()).unwrap();
        Fixture { volume, folder }
    }

    fn file(&self, name: &str) -> FileReference {
        let new = NewInode::of_root(libc::S_IFREG | 0o644);
        let made = self
            .volume
            .create_open(InodeNumber::ROOT, name.as_bytes(), &new)
            .unwrap();
        let file = self.volume.open(made.ino, None).unwrap();
        self.volume.write(file, 0, &[1; 40_960]).unwrap();
        file
    }

    /// The report of the thread that runs `body`, of a new window.
    fn me(&self, window: u64) -> ThreadReport {
        let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let threads = self.volume.threads(window);
        threads
            .into_iter()
            .find(|thread| thread.thread_id == own)
            .unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_thread_s_bytes_are_told_by_file_and_window() {
    let fixture = Fixture::new("files");
    let (one, two) = (fixture.file("one"), fixture.file("two"));
    let mut buffer = [0; 8192];
    let window = fixture.volume.begin_window();
    let before = fixture.me(window);
    for _ in 0..3 {
        fixture.volume.read(one, 0, &mut buffer[..4096]).unwrap();
    }
    fixture.volume.read(one, 100, &mut buffer).unwrap();
    fixture.volume.write(two, 4096, &buffer[..4096]).unwrap();
    fixture.volume.write(two, 5, &buffer[..7]).unwrap();
    let after = fixture.me(window);
    assert_eq!(after.read_bytes[0] - before.read_bytes[0], 3 * 4096 + 8192);
    let of = |file: FileReference| {
        let found = after.files.iter().find(|each| each.ino == file.ino().0);
        found.map(|each| (each.read_bytes, each.written_bytes))
    };
    assert_eq!(of(one), Some((3 * 4096 + 8192, 0)));
    assert_eq!(of(two), Some((0, 4096 + 7)));
    let next = fixture.volume.begin_window();
    assert_eq!(fixture.me(next).files, []);
}

#[test]
fn threads_share_when_they_use_one_file_in_one_window() {
    let fixture = &Fixture::new("share");
    let (common, own) = (fixture.file("common"), fixture.file("own"));
    let read = |file: FileReference| {
        let mut buffer = [0; 4096];
        fixture.volume.read(file, 0, &mut buffer).unwrap();
    };
    let window = fixture.volume.begin_window();
    read(common);
    assert!(!fixture.me(window).is_shared);
    std::thread::scope(|scope| {
        let alone = scope.spawn(|| {
            read(own);
            fixture.me(window).is_shared
        });
        assert!(!alone.join().unwrap());
        let with_us = scope.spawn(|| {
            read(common);
            fixture.me(window).is_shared
        });
        assert!(with_us.join().unwrap());
    });
    assert!(fixture.me(window).is_shared, "the first one shares as well");
    // One after the other in different windows is no sharing.
    let next = fixture.volume.begin_window();
    read(common);
    std::thread::scope(|scope| {
        let later = fixture.volume.begin_window();
        let other = scope.spawn(move || {
            read(common);
            fixture.me(later).is_shared
        });
        assert!(!other.join().unwrap());
    });
    assert!(!fixture.me(next).is_shared);
}

#[test]
fn unwatched_session_notes_no_file_use() {
    let fixture = Fixture::new("nobody");
    let file = fixture.file("file");
    let mut buffer = [0; 4096];
    let first = fixture.volume.begin_window();
    fixture.volume.end_windows();
    fixture.volume.read(file, 0, &mut buffer).unwrap();
    assert_eq!(fixture.me(first).files, []);
    let second = fixture.volume.begin_window();
    assert!(second > first);
    fixture.volume.read(file, 0, &mut buffer).unwrap();
    assert_eq!(fixture.me(second).files.len(), 1);
}

#[test]
fn a_thread_that_ended_is_told_no_more() {
    let fixture = Fixture::new("ended");
    let file = fixture.file("file");
    let window = fixture.volume.begin_window();
    let seen = std::thread::scope(|scope| {
        let short = scope.spawn(|| {
            fixture.volume.read(file, 0, &mut [0; 4096]).unwrap();
            fixture.me(window)
        });
        short.join().unwrap()
    });
    let now = fixture.volume.threads(window);
    assert!(
        now.iter()
            .all(|thread| { (thread.slot, thread.incarnation) != (seen.slot, seen.incarnation) })
    );
}

/// Threads end all the time, and each of their bytes counts once.
#[test]
fn threads_that_end_count_once() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    const BYTES: u64 = 512;
    let fixture = Fixture::new("ended");
    let volume = &fixture.volume;
    let file = fixture.file("a");
    let written = || volume.counters().written_bytes[0];
    let before = written();
    let (asked, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..6000 {
                asked.fetch_add(BYTES, Ordering::Relaxed);
                volume.write(file, 0, &[1; BYTES as usize]).unwrap();
                volume.thread_exit();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        let mut last = before;
        while !is_over.load(Ordering::Relaxed) {
            let now = written();
            let most = before + asked.load(Ordering::Relaxed);
            assert!(
                (last.saturating_sub(BYTES)..=most).contains(&now),
                "{last} {now} {most}"
            );
            last = now;
        }
    });
    assert_eq!(written(), before + asked.into_inner());
}
