//! One test for each crash fault that other persistent-memory file systems had, under the name it is
//! known by. Each explores the crash images of the sequence that triggered it.

mod common;
mod crash {
    pub mod explore;
    pub mod image;
    pub mod oracle;
    pub mod steps;
}

use AllocateMode::*;
use RenameMode::*;
use common::*;
use crash::explore::{Explorer, Step};
use crash::steps::*;
use egeria_fs::format::{BLOCK, SUPERBLOCK_BYTES, SUPERBLOCK_COPIES};
use egeria_fs::*;
use std::os::unix::fs::FileExt;

/// Explore on one pool, and from unloaded inodes on two.
fn explore(what: &str, steps: &[Step<'_>]) {
    Explorer::new().explore(what, &small_tree, steps);
    Explorer::new()
        .images(3)
        .pools(2)
        .fresh()
        .explore(what, &small_tree, steps);
}

#[test]
fn rename_over_existing() {
    explore("over a file", &[&|v| rename(v, "big", "small", Replace)]);
    explore(
        "over the last name",
        &[&|v| rename(v, "d/x", "big", Replace)],
    );
}

#[test]
fn rename_replay_twice() {
    let again = Explorer {
        crashes_in_recovery: 5,
        ..Explorer::new().images(2)
    };
    again.explore(
        "there",
        &small_tree,
        &[&|v| rename(v, "d/x", "e/x", Replace)],
    );
    // A journal kept too long would move the file there once more.
    explore(
        "there and back",
        &[&|v| rename(v, "d/x", "e/x", Replace), &|v| {
            rename(v, "e/x", "d/x", Replace)
        }],
    );
}

#[test]
fn rename_directory() {
    explore("in place", &[&|v| rename(v, "d", "renamed", Replace)]);
    explore(
        "into another, and write below",
        &[&|v| rename(v, "d", "e/d", Replace), &|v| {
            write(v, "e/d/sub/deep", 0, b"still reached")
        }],
    );
}

#[test]
fn link_count_pairs() {
    explore(
        "rename, link",
        &[&|v| rename(v, "small", "d/moved", Replace), &|v| {
            link(v, "d/moved", "e/third")
        }],
    );
    explore(
        "link, unlink",
        &[&|v| link(v, "small", "d/third"), &|v| unlink(v, "twin")],
    );
    explore(
        "rename over one of two names",
        &[&|v| rename(v, "d/x", "twin", Replace)],
    );
}

#[test]
fn tail_before_entry() {
    let all = Explorer::new().images(64);
    all.explore("one entry", &small_tree, &[&|v| chmod(v, "big", 0o600)]);
    all.explore(
        "an entry of many lines",
        &small_tree,
        &[&|v| set_xattr(v, "big", "user.long", &bytes(1, 900))],
    );
}

#[test]
fn mkdir_unflushed_head() {
    explore(
        "mkdir, create below",
        &[&|v| mkdir(v, "new"), &|v| create(v, "new/child")],
    );
    explore(
        "mkdir below mkdir",
        &[&|v| mkdir(v, "d/a"), &|v| mkdir(v, "d/a/b")],
    );
}

#[test]
fn replica_out_of_step() {
    for (damaged, whole) in [(0, 1), (1, 0)] {
        let scratch = Scratch::new(1, 8 << 20);
        small_tree(&scratch.attach());
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(&scratch.pools[0])
            .unwrap();
        let place = |copy: usize| SUPERBLOCK_COPIES[copy] * BLOCK as u64;
        let read = |copy| {
            let mut bytes = vec![0; SUPERBLOCK_BYTES];
            file.read_exact_at(&mut bytes, place(copy)).unwrap();
            bytes
        };
        let good = read(whole);
        file.write_all_at(&[0x5A; 300], place(damaged) + 40)
            .unwrap();
        let report = check_volume(&scratch.pools[0], true, &mut |_, _| {}).unwrap();
        assert_eq!(
            (report.findings.len(), report.repaired),
            (1, 1),
            "{report:?}"
        );
        assert!(read(whole) == good, "the good copy was changed");
        assert!(read(damaged) == good, "the damaged copy was not mended");
        scratch.assert_clean();
    }
}

#[test]
fn unaligned_copy_tail() {
    for count in [1, 7, 9, 63, 65, 127, 1001, 4095] {
        let explorer = Explorer::new().images(2);
        explorer.explore(
            "write",
            &small_tree,
            &[&|v| write(v, "d/sub/deep", 3, &bytes(9, count))],
        );
        explorer.explore(
            "append",
            &small_tree,
            &[&|v| append(v, "big", &bytes(9, count))],
        );
        explorer.explore(
            "symlink",
            &small_tree,
            &[&|v| symlink(v, "s", &bytes(1, count))],
        );
    }
}

#[test]
fn fast_path_no_fence() {
    explore(
        "append in place",
        &[&|v| append(v, "small", b"x"), &|v| append(v, "small", b"y")],
    );
    explore("a word", &[&|v| write(v, "big", 4096, b"eightbyt")]);
    explore(
        "a whole block",
        &[&|v| write(v, "big", 4096, &bytes(1, 4096))],
    );
    explore("nothing but a size", &[&|v| truncate(v, "small", 101)]);
}

#[test]
fn wide_atomic() {
    let all_at_once: Step<'_> = &|v| {
        change(
            v,
            "big",
            AttributeChange {
                permissions: Some(0o6755),
                uid: Some(7),
                gid: Some(8),
                size_bytes: Some(777),
                atime: Some(TimeChange::At(1)),
                mtime: Some(TimeChange::At(2)),
            },
        )
    };
    Explorer::new()
        .images(40)
        .explore("all attributes", &small_tree, &[all_at_once]);
    explore(
        "data, size and times",
        &[&|v| write(v, "small", 50, &bytes(1, 20_000))],
    );
}

#[test]
fn in_place_visible_early() {
    let many = Explorer::new().images(24);
    many.explore(
        "part of a block",
        &small_tree,
        &[&|v| write(v, "big", 8200, &bytes(2, 300))],
    );
    many.explore(
        "parts of two",
        &small_tree,
        &[&|v| write(v, "big", 8100, &bytes(3, 300))],
    );
    many.explore(
        "punched",
        &small_tree,
        &[&|v| allocate(v, "big", 8200, 300, PunchHole)],
    );
}

#[test]
fn truncate_during_recovery() {
    explore("down", &[&|v| truncate(v, "big", 100)]);
    explore(
        "down and up",
        &[&|v| truncate(v, "big", 4097), &|v| {
            truncate(v, "big", 1 << 40)
        }],
    );
    explore(
        "down, then another file",
        &[&|v| truncate(v, "big", 0), &|v| {
            write(v, "d/sub/deep", 0, &bytes(4, 40_000))
        }],
    );
}

#[test]
fn orphan_replay() {
    explore(
        "deleted, the space used again",
        &[&|v| delete_orphan(v, "big"), &|v| {
            write(v, "d/sub/deep", 0, &bytes(5, 50_000))
        }],
    );
    let again = Explorer {
        crashes_in_recovery: 3,
        ..Explorer::new().images(3)
    };
    again.explore("unlinked", &small_tree, &[&|v| unlink(v, "big")]);
}

#[test]
fn inode_reused_while_pending() {
    explore(
        "unlink, create, write",
        &[&|v| unlink(v, "big"), &|v| create(v, "next"), &|v| {
            write(v, "next", 0, &bytes(6, 9000))
        }],
    );
    let held: Step<'_> = &|v| {
        v.open(ino(v, "big"), None).unwrap();
        unlink(v, "big");
    };
    explore(
        "unlinked and held open, create, write",
        &[held, &|v| create(v, "next"), &|v| {
            write(v, "next", 0, &bytes(6, 9000))
        }],
    );
}

#[test]
fn several_descriptors() {
    fn with_two(
        volume: &Volume,
        body: impl FnOnce(FileReference, FileReference) -> Outcome<usize>,
    ) {
        opened(volume, "big", |one| {
            Ok(opened(volume, "big", |two| body(one, two)))
        });
    }
    explore(
        "written through one, seen through the other",
        &[
            &|v| with_two(v, |one, _| v.write(one, 60_000, b"end")),
            &|v| {
                with_two(v, |_, two| {
                    v.append(two, b"behind it").map(|(at, _)| at as usize)
                })
            },
        ],
    );
    let steps: [Step<'_>; 3] = [
        &|v| allocate(v, "big", 40_000, 40_000, Extend),
        &|v| truncate(v, "big", 45_000),
        &|v| write(v, "big", 44_000, &bytes(7, 2000)),
    ];
    explore("reserve, truncate, write", &steps);
}

#[test]
fn long_name_spans_lines() {
    let long = "n".repeat(255);
    let (made, renamed) = (format!("d/{long}"), format!("e/{}", "m".repeat(254)));
    explore(
        "long names",
        &[&|v| create(v, &made), &|v| {
            rename(v, &made, &renamed, Replace)
        }],
    );
}

#[test]
fn different_machine_on_recovery() {
    fn declared() -> AttachOptions {
        let machine = egeria_machine::Machine::profile("dram-2s").expect("a profile");
        AttachOptions {
            machine: Some(machine),
            ..AttachOptions::default()
        }
    }
    let elsewhere = Explorer {
        options: declared,
        ..Explorer::new().pools(2).images(4)
    };
    elsewhere.explore("create", &small_tree, &[&|v| create(v, "d/new")]);
    elsewhere.explore(
        "rename",
        &small_tree,
        &[&|v| rename(v, "d/x", "e/y", Replace)],
    );
    elsewhere.explore(
        "write",
        &small_tree,
        &[&|v| write(v, "big", 100, &bytes(8, 9000))],
    );
}

#[test]
fn crash_in_recovery() {
    let again = Explorer {
        crashes_in_recovery: 6,
        ..Explorer::new().images(2)
    };
    again.explore(
        "exchange",
        &small_tree,
        &[&|v| rename(v, "d/x", "e/y", Exchange)],
    );
    again.pools(2).explore(
        "over",
        &small_tree,
        &[&|v| rename(v, "d/x", "e/y", Replace)],
    );
}

#[test]
fn full_volume_crash() {
    let fill: Step<'_> = &|v| {
        small_tree(v);
        create(v, "filler");
        let file = v.open(ino(v, "filler"), None).unwrap();
        let chunk = bytes(1, 1 << 20);
        while v.append(file, &chunk).is_ok() {}
        while v.append(file, &chunk[..4096]).is_ok() {}
    };
    let full = Explorer {
        probe: false,
        ..Explorer::new()
    };
    // What needs room fails and changes nothing; what gives room works.
    let refused: Step<'_> = &|v| {
        let overwritten = opened(v, "big", |file| Ok(v.write(file, 0, &bytes(2, 9000))));
        assert!(overwritten.is_err() || overwritten.is_ok_and(|count| count < 9000));
    };
    full.explore(
        "refused",
        &fill,
        &[refused, &|v| append(v, "small", b"in place")],
    );
    full.explore(
        "emptied",
        &fill,
        &[&|v| truncate(v, "filler", 5000), &|v| create(v, "new")],
    );
    full.explore(
        "unlinked",
        &fill,
        &[&|v| unlink(v, "filler"), &|v| mkdir(v, "new")],
    );
}
