//! Stores through mappings that cannot be written back: each handle is told once, and if there was none that looked, the
//! next. As the kernel has it for local file systems (`errseq_t`).

#[path = "common/child.rs"]
mod child;
mod common;
use child::Served;
use common::*;
use egeria_harness::fork::Forked;
use egeria_mount::MountOptions;
use std::fs::{self, File};
use std::path::Path;

const PAGE: usize = 4096;

/// With one thread that serves: each keeps some free space for itself.
fn served() -> Option<Served> {
    Served::with(&MountOptions {
        threads: 1,
        ..MountOptions::default()
    })
}

/// A file of holes on a volume that is full.
fn full(mount: &Served) -> File {
    let file = File::create_new(mount.path("file")).unwrap();
    file.set_len(4 * PAGE as u64).unwrap();
    let mut filler = File::create_new(mount.path("filler")).unwrap();
    for bytes in [1 << 20, PAGE] {
        use std::io::Write;
        while filler.write_all(&vec![7; bytes]).is_ok() {}
    }
    file
}

fn reader(path: &Path) -> File {
    File::open(path).unwrap()
}

/// A process that stores and ends, without a word.
fn store_in_a_hole(path: &Path) {
    let stored = Forked::run(|| {
        let file = File::options().read(true).write(true).open(path).unwrap();
        map(&file, PAGE, true).store(0, b"stored");
        0
    });
    assert_eq!(stored.unwrap().wait().code(), Some(0));
}

fn synced(file: &File) -> Result<(), i32> {
    sys(rustix::fs::fsync(file))
}

#[test]
fn each_handle_is_told_once_of_lost_stores() {
    let Some(mount) = served() else { return };
    let first = full(&mount);
    let second = reader(&mount.path("file"));
    store_in_a_hole(&mount.path("file"));
    for (file, which) in [(&first, "first"), (&second, "second")] {
        assert_eq!(synced(file), Err(libc::ENOSPC), "{which}");
        assert_eq!(synced(file), Ok(()), "{which}");
    }
    // Somebody knows.
    assert_eq!(synced(&reader(&mount.path("file"))), Ok(()));
    fs::remove_file(mount.path("filler")).unwrap();
}

#[test]
fn the_next_handle_is_told_of_lost_stores() {
    let Some(mount) = served() else { return };
    drop(full(&mount));
    store_in_a_hole(&mount.path("file"));
    assert_eq!(synced(&reader(&mount.path("file"))), Err(libc::ENOSPC));
    assert_eq!(synced(&reader(&mount.path("file"))), Ok(()));
    fs::remove_file(mount.path("filler")).unwrap();
}

/// Those who go past the kernel are told by the session.
#[test]
fn the_session_knows_of_lost_stores() {
    let Some(mount) = served() else { return };
    drop(full(&mount));
    let (ino, file) = mount.engine_file("file");
    let before = mount.volume.write_back_errors(file);
    store_in_a_hole(&mount.path("file"));
    let after = mount.volume.write_back_errors(file);
    assert!(after.is_new_since(before) && after.is_unseen());
    assert_eq!(after.errno().0, libc::ENOSPC);
    mount.volume.close(ino);
    fs::remove_file(mount.path("filler")).unwrap();
}
