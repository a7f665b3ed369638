//! Limits of directory trees: what is counted, what is refused, and that a model counts the same after any sequence.

use crate::common::*;
use egeria_engine::format::BLOCK;
use egeria_engine::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod model;
mod random;

const ROOT: InodeNumber = InodeNumber::ROOT;
const EDQUOT: Errno = Errno(libc::EDQUOT);
const EXDEV: Errno = Errno(libc::EXDEV);

fn limits(blocks: u64, inodes: u64) -> QuotaLimits {
    let given = |limit: u64| (limit != 0).then_some(limit);
    QuotaLimits {
        bytes: given(blocks * BLOCK as u64),
        inodes: given(inodes),
    }
}

fn directory(volume: &Volume, parent: InodeNumber, name: &[u8]) -> InodeNumber {
    volume.create(parent, name, &DIRECTORY).expect("mkdir").ino
}

fn opened(volume: &Volume, parent: InodeNumber, name: &[u8]) -> FileReference {
    let made = volume.create(parent, name, &FILE).expect("create");
    volume.open(made.ino, None).expect("open")
}

/// Blocks and inodes that a tree uses; they must be those that it holds.
#[track_caller]
fn used(volume: &Volume, top: InodeNumber) -> (u64, u64) {
    let quota = volume.quota_of(top).expect("limits");
    let used = (quota.used_bytes, quota.used_inodes);
    assert_eq!(volume.recount_quota(top), Ok(used));
    (used.0 / BLOCK as u64, used.1)
}

#[track_caller]
fn refused(outcome: Result<(), VolumeError>, errno: i32, part: &str) {
    let error = outcome.expect_err("refused");
    assert_eq!(error.errno, errno, "{error}");
    assert!(error.message.contains(part), "{error}");
    assert!(error.message.contains("; "), "cause; remedy: {error}");
}

#[test]
fn writes_fill_a_tree_to_the_last_block() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let top = directory(&volume, ROOT, b"top");
    volume.set_quota(top, limits(10, 0)).expect("limit");
    let file = opened(&volume, top, b"file");
    let long = vec![7; 100 * BLOCK];
    assert_eq!(volume.write(file, 0, &long), Ok(10 * BLOCK), "what fits");
    assert_eq!(volume.append(file, b"x").map(drop), Err(EDQUOT));
    assert_eq!(volume.write(file, 1 << 30, b"x"), Err(EDQUOT), "a hole");
    let reserve = volume.allocate(file, 0, 20 * BLOCK as u64, AllocateMode::KeepSize);
    assert_eq!(reserve, Err(EDQUOT));
    let symlink = volume.symlink(top, b"link", b"target", 0, 0);
    assert_eq!(symlink.map(drop), Err(EDQUOT), "its target takes a block");
    assert_eq!(used(&volume, top), (10, 2));
    let outside = opened(&volume, ROOT, b"outside");
    assert_eq!(volume.write(outside, 0, &long), Ok(long.len()));
}

#[test]
fn a_tree_beyond_its_limit_takes_overwrites_and_removals() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let top = directory(&volume, ROOT, b"top");
    let file = opened(&volume, top, b"file");
    volume.write(file, 0, &vec![7; 20 * BLOCK]).expect("write");
    volume.set_quota(top, limits(8, 2)).expect("limit");
    for bytes in [1, BLOCK, 9 * BLOCK] {
        assert_eq!(volume.write(file, 3000, &vec![8; bytes]), Ok(bytes));
    }
    let create = volume.create(top, b"new", &FILE).map(drop);
    assert_eq!(create, Err(EDQUOT));
    let punch = AllocateMode::PunchHole;
    volume
        .allocate(file, 0, 4 * BLOCK as u64, punch)
        .expect("punch");
    let change = AttributeChange {
        size_bytes: Some(11 * BLOCK as u64),
        ..AttributeChange::default()
    };
    volume
        .set_attributes(file.ino(), &change)
        .expect("truncate");
    assert_eq!(used(&volume, top), (7, 2));
    assert_eq!(volume.write(file, 0, &[9; 2 * BLOCK]), Ok(BLOCK));
    volume.unlink(top, b"file").expect("unlink");
    volume.close(file.ino());
    assert_eq!(used(&volume, top), (0, 1));
    volume.create(top, b"new", &FILE).expect("create");
}

#[test]
fn removed_files_count_until_they_are_closed() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let top = directory(&volume, ROOT, b"top");
    volume.set_quota(top, limits(8, 3)).expect("limit");
    let file = opened(&volume, top, b"file");
    volume.write(file, 0, &[7; 5 * BLOCK]).expect("write");
    volume.unlink(top, b"file").expect("unlink");
    let unnamed = volume.create_unnamed(top, &FILE).expect("unnamed");
    let quota = volume.quota_of(top).expect("limits");
    assert_eq!((quota.used_bytes, quota.used_inodes), (5 * 4096, 3));
    let create = volume.create(top, b"new", &FILE).map(drop);
    assert_eq!(create, Err(EDQUOT));
    volume.close(file.ino());
    volume.close(unnamed.ino);
    assert_eq!(used(&volume, top), (0, 1));
}

#[test]
fn names_stay_on_their_side() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let [top, other] = [b"top".as_slice(), b"other"].map(|name| directory(&volume, ROOT, name));
    let inner = directory(&volume, top, b"inner");
    for (parent, name) in [(top, b"in"), (inner, b"dp"), (ROOT, b"ou")] {
        opened(&volume, parent, name);
    }
    for limited in [top, other] {
        volume.set_quota(limited, limits(100, 100)).expect("limit");
    }
    let outside = volume.lookup(ROOT, b"ou").expect("lookup").ino;
    let inside = volume.lookup(top, b"in").expect("lookup").ino;
    let rename = |from, name: &[u8], to, new: &[u8], mode| volume.rename(from, name, to, new, mode);
    let replace = RenameMode::Replace;
    assert_eq!(rename(ROOT, b"ou", top, b"x", replace), Err(EXDEV));
    assert_eq!(rename(top, b"in", ROOT, b"x", replace), Err(EXDEV));
    assert_eq!(rename(top, b"in", other, b"x", replace), Err(EXDEV));
    assert_eq!(rename(top, b"inner", ROOT, b"x", replace), Err(EXDEV));
    let exchange = RenameMode::Exchange;
    assert_eq!(rename(top, b"in", ROOT, b"ou", exchange), Err(EXDEV));
    assert_eq!(volume.link(outside, top, b"x").map(drop), Err(EXDEV));
    assert_eq!(volume.link(inside, other, b"x").map(drop), Err(EXDEV));
    let unnamed = volume.create_unnamed(other, &FILE).expect("unnamed").ino;
    assert_eq!(volume.link(unnamed, top, b"x").map(drop), Err(EXDEV));
    volume.link(unnamed, other, b"named").expect("link");
    volume.link(inside, inner, b"twin").expect("link within");
    assert_eq!(rename(inner, b"dp", top, b"in", replace), Ok(()));
    // The top itself moves like any directory, but not into another tree.
    assert_eq!(rename(ROOT, b"top", other, b"x", replace), Err(EXDEV));
    let shelf = directory(&volume, ROOT, b"shelf");
    assert_eq!(rename(ROOT, b"top", shelf, b"moved", replace), Ok(()));
    assert_eq!(used(&volume, top), (0, 4));
    assert_eq!(used(&volume, other), (0, 2));
    volume.remove_quota(top).expect("remove");
    assert_eq!(rename(top, b"in", ROOT, b"x", replace), Ok(()));
}

#[test]
fn trees_that_cannot_be_counted_are_refused() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let top = directory(&volume, ROOT, b"top");
    let inner = directory(&volume, top, b"inner");
    let file = opened(&volume, inner, b"file").ino();
    refused(
        volume.set_quota(top, limits(0, 0)),
        libc::EINVAL,
        "no limit",
    );
    let small = QuotaLimits {
        bytes: Some(100),
        inodes: None,
    };
    refused(volume.set_quota(top, small), libc::EINVAL, "4096");
    refused(
        volume.set_quota(file, limits(1, 0)),
        libc::ENOTDIR,
        "directory",
    );
    refused(volume.remove_quota(top), libc::ENODATA, "egeria quota show");
    volume.link(file, ROOT, b"twin").expect("link");
    refused(
        volume.set_quota(top, limits(1, 0)),
        libc::EXDEV,
        "names in /top",
    );
    assert_eq!(volume.quotas(), []);
    volume.unlink(ROOT, b"twin").expect("unlink");
    volume.set_quota(inner, limits(0, 9)).expect("limit");
    refused(
        volume.set_quota(top, limits(1, 0)),
        libc::EINVAL,
        "/top/inner in it",
    );
    let below = directory(&volume, inner, b"below");
    refused(
        volume.set_quota(below, limits(1, 0)),
        libc::EINVAL,
        "lies in /top/inner",
    );
    assert_eq!(used(&volume, inner), (0, 3));
    let set = |name: &[u8]| volume.set_xattr(ROOT, name, b"1 1 1", XattrMode::Any);
    assert_eq!(set(b"user.egeria.quota.1"), Err(Errno(libc::EOPNOTSUPP)));
    assert_eq!(volume.list_xattr(ROOT), Ok(Vec::new()));
}

#[test]
fn limits_and_usage_are_there_after_every_session() {
    let scratch = Scratch::new(2, 32 << 20);
    let (top, gone) = {
        let volume = scratch.attach();
        let top = directory(&volume, ROOT, b"top");
        let file = opened(&volume, top, b"file");
        volume.write(file, 0, &[7; 3 * BLOCK]).expect("write");
        volume.link(file.ino(), top, b"twin").expect("link");
        volume
            .symlink(top, b"link", b"target", 0, 0)
            .expect("symlink");
        volume.set_quota(top, limits(4, 9)).expect("limit");
        let gone = directory(&volume, ROOT, b"gone");
        volume.set_quota(gone, limits(4, 9)).expect("limit");
        volume.remove_directory(ROOT, b"gone").expect("rmdir");
        assert_eq!(volume.quotas().len(), 1, "a removed top has no limits");
        (top, gone)
    };
    for _ in 0..2 {
        let volume = scratch.attach();
        assert_eq!(volume.quotas().len(), 1);
        assert_eq!(used(&volume, top), (4, 3));
        let quota = volume.quota_of(top).expect("limits");
        assert_eq!(quota.limits, limits(4, 9));
        let again = directory(&volume, ROOT, b"again");
        assert!(again != gone || volume.quota_of(again).is_none());
        volume.remove_directory(ROOT, b"again").expect("rmdir");
    }
    {
        let volume = scratch.attach();
        volume.remove_quota(top).expect("remove");
    }
    assert_eq!(scratch.attach().quotas(), []);
    scratch.assert_clean();
}

#[test]
fn space_within_a_tree_is_what_its_limits_leave() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach();
    let top = directory(&volume, ROOT, b"top");
    let inner = directory(&volume, top, b"inner");
    let file = opened(&volume, inner, b"file");
    volume.write(file, 0, &[7; 3 * BLOCK]).expect("write");
    let whole = volume.space(None);
    assert_eq!(volume.space_at(file.ino()), whole);
    volume.set_quota(top, limits(10, 5)).expect("limit");
    for ino in [top, inner, file.ino()] {
        let space = volume.space_at(ino);
        assert_eq!((space.blocks, space.free_blocks), (10, 7));
        assert_eq!((space.available_blocks, space.inodes), (7, 5));
        assert_eq!(space.free_inodes, 2);
    }
    assert_eq!(volume.space_at(ROOT).blocks, whole.blocks);
    let left = volume.quotas_left();
    assert_eq!(left, "/top has 28.0 KiB of 40.0 KiB and 2 of 5 inodes left");
}

/// Files come and go in a tree while it gets limits, loses them and gets them again.
#[test]
fn a_tree_in_use_is_counted_exactly() {
    let scratch = Scratch::new(1, 64 << 20);
    let volume = scratch.attach();
    let top = directory(&volume, ROOT, b"top");
    let inner = directory(&volume, top, b"inner");
    for name in 0..200u32 {
        let file = opened(&volume, inner, name.to_string().as_bytes());
        volume.write(file, 0, &[1; 5000]).expect("write");
        volume.close(file.ino());
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (volume, done) = (&volume, &done);
            let parent = if thread % 2 == 0 { top } else { inner };
            scope.spawn(move || {
                let name = [b'a' + thread];
                while !done.load(Ordering::Relaxed) {
                    make_and_remove(volume, parent, &name);
                }
            });
        }
        for round in 0..20 {
            volume.set_quota(top, limits(5000, 900)).expect("limit");
            if round % 2 == 0 {
                volume.remove_quota(top).expect("remove");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(used(&volume, top), (400, 202));
}

fn make_and_remove(volume: &Volume, parent: InodeNumber, name: &[u8]) {
    let made = volume.create_open(parent, name, &FILE).expect("create");
    let file = volume.open(made.ino, None).expect("open");
    volume.write(file, 0, &[1; 20_000]).expect("write");
    let punch = volume.allocate(file, 0, 8192, AllocateMode::PunchHole);
    punch.expect("punch");
    let twin = [name, b"2"].concat();
    match volume.link(made.ino, parent, &twin) {
        Ok(_) => volume.unlink(parent, &twin).expect("unlink"),
        // The directory is counted already, and the file not yet.
        Err(errno) => assert_eq!(errno, EXDEV),
    }
    volume.unlink(parent, name).expect("unlink");
    volume.close(made.ino);
    volume.close(made.ino);
}

/// Threads at the limit never exceed it, and what they free can be had again.
#[test]
fn threads_at_the_limit_never_exceed_it() {
    const BLOCKS: u64 = 100;
    let scratch = Scratch::new(1, 64 << 20);
    let volume = scratch.attach();
    let top = directory(&volume, ROOT, b"top");
    volume.set_quota(top, limits(BLOCKS, 0)).expect("limit");
    let files = [b"a", b"b", b"c", b"d"].map(|name| opened(&volume, top, name));
    std::thread::scope(|scope| {
        for file in files {
            let volume = &volume;
            scope.spawn(move || fill_and_cut(volume, top, file));
        }
    });
    let (blocks, inodes) = used(&volume, top);
    assert!(blocks <= BLOCKS && inodes == 5, "{blocks} {inodes}");
    while volume.append(files[0], &[1; BLOCK]).is_ok() {}
    assert_eq!(used(&volume, top), (BLOCKS, 5));
}

fn fill_and_cut(volume: &Arc<Volume>, top: InodeNumber, file: FileReference) {
    for round in 0..200u64 {
        match volume.append(file, &vec![1; (1 + round as usize % 7) * BLOCK]) {
            Ok(_) | Err(EDQUOT) => {}
            Err(errno) => panic!("{errno}"),
        }
        let committed: u64 = ["a", "b", "c", "d"]
            .map(|name| volume.lookup(top, name.as_bytes()).expect("lookup").blocks)
            .iter()
            .sum();
        assert!(committed <= 2 * 100, "looked at one after the other");
        if round % 11 == 0 {
            let change = AttributeChange {
                size_bytes: Some(0),
                ..AttributeChange::default()
            };
            volume
                .set_attributes(file.ino(), &change)
                .expect("truncate");
        }
    }
}
