use crate::test_volume::{FILE, findings, new_volume};
use crate::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const ROOT: InodeNumber = InodeNumber::ROOT;
const REPLACE: RenameMode = RenameMode::Replace;

const DIRECTORY: NewInode = NewInode::of_root(libc::S_IFDIR | 0o755);

fn directory(volume: &Volume, parent: InodeNumber, name: &[u8]) -> InodeNumber {
    let made = volume.create(parent, name, &DIRECTORY);
    made.expect("a directory").ino
}

fn file(volume: &Volume, parent: InodeNumber, name: &[u8]) -> InodeNumber {
    volume.create(parent, name, &FILE).expect("a file").ino
}

#[test]
fn moves_of_files_wait_only_for_their_directories() {
    let media = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, _) = new_volume(&media);
    let above = directory(&volume, ROOT, b"above");
    let (one, two) = (
        directory(&volume, above, b"one"),
        directory(&volume, above, b"two"),
    );
    let inner = directory(&volume, one, b"inner");
    file(&volume, one, b"file");
    let moves_at_once = |from, to, name: &[u8]| {
        let soon = Duration::from_millis(20);
        within_patience(soon, || volume.rename(from, name, to, name, REPLACE))
    };
    std::thread::scope(|scope| {
        let held = volume.session.lock_renames().expect("the lock");
        let beside = scope.spawn(|| {
            assert_eq!(moves_at_once(one, two, b"file"), Some(Ok(())));
            assert_eq!(moves_at_once(one, two, b"inner"), None);
        });
        beside.join().expect("nobody waits");
        drop(held);
        let held = volume.lock(above.0).expect("a lock");
        let beside = scope.spawn(|| {
            assert_eq!(moves_at_once(two, one, b"file"), Some(Ok(())));
            assert_eq!(moves_at_once(one, inner, b"file"), Some(Ok(())));
            assert_eq!(moves_at_once(one, two, b"inner"), None);
        });
        beside.join().expect("nobody waits");
        drop(held);
    });
    assert_eq!(moves_at_once(one, two, b"inner"), Some(Ok(())));
}

/// Each thread moves its own file around, whatever the tree looks like; another thread moves the directories.
#[test]
fn files_and_directories_move_all_at_once() {
    const THREADS: usize = 3;
    let media = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (volume, pool) = new_volume(&media);
    let places: Vec<_> = (0..4u8)
        .map(|number| directory(&volume, ROOT, &[b'a' + number]))
        .collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let movers: Vec<_> = (0..THREADS)
            .map(|number| {
                let (volume, places) = (&volume, &places);
                scope.spawn(move || {
                    let name = [b'0' + number as u8];
                    let own = file(volume, places[0], &name);
                    for turn in 0..10_000 {
                        let (from, to) = (turn % 4, (turn + 1 + number % 3) % 4);
                        let from = places[from];
                        if volume.lookup(from, &name).is_ok() {
                            let moved = volume.rename(from, &name, places[to], &name, REPLACE);
                            assert_eq!(moved, Ok(()));
                        }
                    }
                    let found = |place: &&InodeNumber| {
                        volume
                            .lookup(**place, &name)
                            .is_ok_and(|found| found.ino == own)
                    };
                    assert_eq!(places.iter().filter(found).count(), 1);
                })
            })
            .collect();
        let turning = scope.spawn(|| {
            let mut parents = [ROOT; 4];
            let mut turn = 0;
            while !is_over.load(Ordering::Acquire) {
                turn += 1;
                let (moved, to) = (turn % 4, (turn * 7 / 4) % 5);
                let to = places.get(to).copied().unwrap_or(ROOT);
                let name = [b'a' + moved as u8];
                match volume.rename(parents[moved], &name, to, &name, REPLACE) {
                    Ok(()) => parents[moved] = to,
                    Err(errno) => assert_eq!(errno, Errno(libc::EINVAL)),
                }
            }
        });
        for mover in movers {
            mover.join().expect("a thread that ends");
        }
        is_over.store(true, Ordering::Release);
        turning.join().expect("a thread that ends");
    });
    drop(volume);
    assert_eq!(findings(&pool), []);
}
