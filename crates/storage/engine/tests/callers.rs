//! Bytes that a mount moves for others are noted for the thread that asked.

use egeria_engine::*;
use std::sync::Arc;

fn volume(directory: &tempfile::TempDir) -> Arc<Volume> {
    let path = directory.path().join("pool");
    let pool = PoolRequest {
        node: 0,
        path: path.clone(),
        bytes: Some(32 << 20),
    };
    create_volume(&[pool], &CreateOptions::default()).expect("mkfs");
    let options = AttachOptions::default();
    let volume = Volume::attach(&path, AttachMode::CreateOrJoin, &options).expect("attach");
    volume.works_on_behalf();
    volume
}

fn file(volume: &Volume) -> FileReference {
    let new = NewInode::of_root(libc::S_IFREG | 0o600);
    let made = volume.create_open(InodeNumber::ROOT, b"file", &new);
    let file = volume.open(made.expect("create").ino, None).expect("open");
    volume.write(file, 0, &[1; 4096]).expect("fill");
    file
}

/// Thread, bytes read and bytes written.
fn seen(volume: &Volume) -> Vec<(u32, u64, u64)> {
    let callers = volume.callers();
    let sums = callers.iter().map(|caller| {
        let (read, written) = (&caller.read_bytes, &caller.written_bytes);
        (caller.thread_id, read.iter().sum(), written.iter().sum())
    });
    sums.collect()
}

#[test]
fn bytes_are_counted_for_the_calling_thread_while_watched() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let volume = volume(&directory);
    let file = file(&volume);
    let write = || volume.write(file, 0, &[1; 4096]).expect("write");
    let read = |bytes: usize| volume.read(file, 0, &mut vec![0; bytes]).expect("read");
    volume.for_caller(77, write);
    assert_eq!(seen(&volume), [], "nobody watches");
    volume.begin_window();
    volume.for_caller(77, write);
    volume.for_caller(78, || read(100));
    volume.for_caller(77, || read(50));
    volume.for_caller(0, || read(50));
    assert_eq!(seen(&volume), [(77, 50, 4096), (78, 100, 0)]);
    volume.end_windows();
    volume.for_caller(77, || read(50));
    assert_eq!(seen(&volume), [(77, 50, 4096), (78, 100, 0)]);
}

#[test]
fn the_caller_that_was_quiet_longest_gives_way() {
    let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let volume = volume(&directory);
    let file = file(&volume);
    volume.begin_window();
    let generation = |thread_id: u32| {
        let callers = volume.callers();
        let found = callers.iter().find(|caller| caller.thread_id == thread_id);
        found.map(|caller| (caller.slot, caller.generation))
    };
    let read = |thread_id: u32| {
        let read = || volume.read(file, 0, &mut [0; 8]).expect("read");
        volume.for_caller(thread_id, read)
    };
    read(1);
    let first = generation(1).expect("noted");
    (2..=5000).for_each(|thread_id| _ = read(thread_id));
    let all = seen(&volume);
    assert!(all.len() < 5000 && all.iter().all(|caller| caller.1 == 8));
    assert_eq!(generation(1), None);
    let heir = volume
        .callers()
        .into_iter()
        .find(|caller| caller.slot == first.0);
    assert!(heir.expect("the slot").generation > first.1);
}
