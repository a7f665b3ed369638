//! Limits of directory trees, as programs on a mount meet them.

use crate::common::*;
use egeria_engine::{InodeNumber, QuotaLimits};
use egeria_harness::memory::Mapping;
use rustix::fs::{FallocateFlags, XattrFlags};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};

const BLOCK: usize = 4096;

/// A directory with limits in blocks and inodes.
fn limited(mount: &Mounted, blocks: u64, inodes: u64) -> InodeNumber {
    let path = mount.path("top");
    fs::create_dir(&path).unwrap();
    let top = InodeNumber(fs::metadata(&path).unwrap().ino());
    let limits = QuotaLimits {
        bytes: Some(blocks * BLOCK as u64),
        inodes: Some(inodes),
    };
    mount.volume.set_quota(top, limits).unwrap();
    top
}

fn errno<T>(outcome: std::io::Result<T>) -> Option<i32> {
    outcome.err().and_then(|error| error.raw_os_error())
}

#[test]
fn programs_meet_limits_as_edquot() {
    let Some(mount) = Mounted::new() else { return };
    let top = limited(&mount, 10, 4);
    let mut file = File::create(mount.path("top/file")).unwrap();
    let full = std::iter::repeat_with(|| file.write_all(&[7; BLOCK])).find_map(Result::err);
    assert_eq!(full.unwrap().raw_os_error(), Some(libc::EDQUOT));
    assert_eq!(file.metadata().unwrap().blocks(), 80);
    // What is there can be changed.
    file.write_all_at(&[8; 3 * BLOCK], 100).unwrap();
    assert_eq!(errno(file.write_at(b"x", 1 << 30)), Some(libc::EDQUOT));
    let reserve = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 20 * BLOCK as u64);
    assert_eq!(reserve, Err(rustix::io::Errno::DQUOT));
    let link = symlink("target", mount.path("top/link"));
    assert_eq!(errno(link), Some(libc::EDQUOT));
    fs::create_dir(mount.path("top/d")).unwrap();
    File::create(mount.path("top/d/last")).unwrap();
    let more = File::create(mount.path("top/d/more"));
    assert_eq!(errno(more), Some(libc::EDQUOT));
    file.set_len(0).unwrap();
    drop(file);
    fs::remove_file(mount.path("top/file")).unwrap();
    eventually("the file is gone", || {
        fs::write(mount.path("top/new"), [1; 10 * BLOCK]).is_ok()
    });
    let quota = mount.volume.quota_of(top).unwrap();
    let used = (quota.used_bytes, quota.used_inodes);
    assert_eq!(mount.volume.recount_quota(top), Ok(used));
}

#[test]
fn statfs_in_a_tree_shows_its_limits() {
    let Some(mount) = Mounted::new() else { return };
    limited(&mount, 100, 20);
    fs::write(mount.path("top/file"), [1; 3 * BLOCK]).unwrap();
    for path in ["top", "top/file"] {
        let found = rustix::fs::statfs(mount.path(path)).unwrap();
        assert_eq!(
            (found.f_blocks, found.f_bfree, found.f_bavail),
            (100, 97, 97)
        );
        assert_eq!((found.f_files, found.f_ffree), (20, 18));
    }
    let whole = rustix::fs::statfs(mount.path("")).unwrap();
    assert!(whole.f_blocks > 10_000, "{whole:?}");
}

#[test]
fn names_do_not_cross_the_edge_of_a_tree() {
    let Some(mount) = Mounted::new() else { return };
    limited(&mount, 100, 20);
    fs::write(mount.path("outside"), b"1").unwrap();
    fs::write(mount.path("top/inside"), b"2").unwrap();
    let exdev = Some(libc::EXDEV);
    let [outside, inside] = ["outside", "top/inside"].map(|name| mount.path(name));
    assert_eq!(errno(fs::rename(&outside, mount.path("top/x"))), exdev);
    assert_eq!(errno(fs::rename(&inside, mount.path("x"))), exdev);
    assert_eq!(errno(fs::hard_link(&outside, mount.path("top/x"))), exdev);
    assert_eq!(errno(fs::hard_link(&inside, mount.path("x"))), exdev);
    fs::rename(&inside, mount.path("top/renamed")).unwrap();
    // The attribute that has the limits is the volume's.
    let forged = rustix::fs::setxattr(
        mount.path(""),
        "user.egeria.quota.1",
        b"1 1 1",
        XattrFlags::empty(),
    );
    assert_eq!(forged, Err(rustix::io::Errno::OPNOTSUPP));
}

/// Stores through a mapping into holes, which the kernel writes back later.
#[test]
fn stores_beyond_a_limit_are_reported_by_fsync() {
    let Some(mount) = Mounted::new() else { return };
    limited(&mount, 4, 20);
    let path = mount.path("top/file");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    file.set_len(16 * BLOCK as u64).unwrap();
    let mapping = Mapping::of_file(&file, 16 * BLOCK, true).unwrap();
    for page in 0..16 {
        mapping.store_word(page * BLOCK, 0x1111_1111_1111_1111);
    }
    assert_eq!(errno(file.sync_all()), Some(libc::EDQUOT));
    drop(mapping);
    assert_eq!(fs::metadata(&path).unwrap().blocks(), 4 * 8);
}
