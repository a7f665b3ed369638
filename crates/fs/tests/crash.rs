//! Crash tests over short sequences: one to three operations each, every telling point, all crash images
//! when they are few, else a seeded sample. `EGERIA_TEST_IMAGES` sets how many per point.

mod common;
mod crash {
    pub mod explore;
    pub mod image;
    pub mod oracle;
    pub mod steps;
}

use AllocateMode::*;
use RenameMode::*;
use crash::explore::{Explorer, Step};
use crash::steps::*;
use egeria_fs::*;

/// Every kind of operation, each possible on the small tree.
const OPERATIONS: [(&str, Step<'static>); 42] = [
    ("create", &|v| create(v, "new")),
    ("create in a directory", &|v| create(v, "d/new")),
    ("create, first in its directory", &|v| {
        create(v, "empty/new")
    }),
    ("mkdir", &|v| mkdir(v, "d/newdir")),
    ("symlink", &|v| symlink(v, "news", &bytes(b'/', 300))),
    ("link", &|v| link(v, "small", "d/third")),
    ("unlink", &|v| unlink(v, "big")),
    ("unlink one of two", &|v| unlink(v, "twin")),
    ("rmdir", &|v| rmdir(v, "empty")),
    ("write, the first", &|v| write(v, "d/sub/deep", 0, b"first")),
    ("write far away", &|v| {
        write(v, "d/sub/deep", (1 << 40) + 5, b"far")
    }),
    ("overwrite", &|v| write(v, "big", 4096, &bytes(1, 8192))),
    ("overwrite a part of a block", &|v| {
        write(v, "big", 100, b"part")
    }),
    ("overwrite across blocks", &|v| {
        write(v, "big", 4000, &bytes(2, 10_000))
    }),
    ("write across the end", &|v| {
        write(v, "big", 49_000, &bytes(3, 5000))
    }),
    ("write behind a gap", &|v| {
        write(v, "small", 9000, &bytes(4, 100))
    }),
    ("write past the inline words", &|v| {
        write(v, "small", 7 * 4096, &bytes(5, 9000))
    }),
    ("append in place", &|v| append(v, "small", b"tail")),
    ("append over a block's end", &|v| {
        append(v, "small", &bytes(6, 4100))
    }),
    ("truncate to nothing", &|v| truncate(v, "big", 0)),
    ("truncate within a block", &|v| truncate(v, "big", 10_001)),
    ("truncate up", &|v| truncate(v, "big", 1 << 33)),
    ("truncate up within a block", &|v| {
        truncate(v, "small", 3000)
    }),
    ("reserve", &|v| allocate(v, "small", 0, 30_000, Extend)),
    ("reserve behind the end", &|v| {
        allocate(v, "small", 8192, 8192, KeepSize)
    }),
    ("punch a hole", &|v| {
        allocate(v, "big", 5000, 20_000, PunchHole)
    }),
    ("punch inside a block", &|v| {
        allocate(v, "big", 5000, 200, PunchHole)
    }),
    ("zero a range and grow", &|v| {
        allocate(v, "big", 45_000, 20_000, ZeroRange)
    }),
    ("chmod", &|v| chmod(v, "d/x", 0o4711)),
    ("setxattr", &|v| {
        set_xattr(v, "d/x", "user.new", &bytes(7, 1000))
    }),
    ("setxattr again", &|v| {
        set_xattr(v, "big", "user.old", b"other")
    }),
    ("removexattr", &|v| remove_xattr(v, "big", "user.old")),
    ("rename", &|v| rename(v, "big", "large", Replace)),
    ("rename over a file", &|v| {
        rename(v, "big", "symlink", Replace)
    }),
    ("rename over one of two names", &|v| {
        rename(v, "big", "twin", Replace)
    }),
    ("rename across directories", &|v| {
        rename(v, "d/x", "e/z", Replace)
    }),
    ("rename across, over a file", &|v| {
        rename(v, "d/x", "e/y", Replace)
    }),
    ("rename a directory across", &|v| {
        rename(v, "d/sub", "e/sub", Replace)
    }),
    ("rename a directory over an empty one", &|v| {
        rename(v, "d/sub", "empty", Replace)
    }),
    ("exchange", &|v| rename(v, "d/x", "e/y", Exchange)),
    ("exchange a file and a directory", &|v| {
        rename(v, "d/sub", "big", Exchange)
    }),
    ("delete an orphan", &|v| delete_orphan(v, "big")),
];

fn explore_all(explorer: Explorer, every: usize, first: usize) {
    let mut images = 0;
    for (name, step) in OPERATIONS.iter().skip(first).step_by(every) {
        images += explorer.explore(name, &small_tree, &[step]);
    }
    assert!(images > 100, "{images} images show nothing");
}

#[test]
fn every_operation_is_there_wholly_or_not_at_all() {
    explore_all(Explorer::new(), 2, 0);
}

#[test]
fn every_other_operation_is_there_wholly_or_not_at_all() {
    explore_all(Explorer::new(), 2, 1);
}

#[test]
fn operations_on_two_pools_and_unloaded_inodes_are_atomic() {
    explore_all(Explorer::new().pools(2).fresh().images(4), 3, 0);
}

/// Sequences of two and three operations that touch the same things.
const SEQUENCES: [(&str, &[Step<'static>]); 14] = [
    (
        "create, write",
        &[&|v| create(v, "new"), &|v| {
            write(v, "new", 0, &bytes(1, 6000))
        }],
    ),
    (
        "create, write, rename over",
        &[
            &|v| create(v, "new"),
            &|v| write(v, "new", 0, &bytes(1, 100)),
            &|v| rename(v, "new", "big", Replace),
        ],
    ),
    (
        "append twice",
        &[&|v| append(v, "small", b"one"), &|v| {
            append(v, "small", &bytes(2, 5000))
        }],
    ),
    (
        "truncate down, up",
        &[&|v| truncate(v, "big", 5001), &|v| {
            truncate(v, "big", 60_000)
        }],
    ),
    (
        "truncate, append",
        &[&|v| truncate(v, "big", 4999), &|v| {
            append(v, "big", b"tail")
        }],
    ),
    (
        "punch, write",
        &[&|v| allocate(v, "big", 4096, 16_384, PunchHole), &|v| {
            write(v, "big", 9000, &bytes(3, 3000))
        }],
    ),
    (
        "unlink, create",
        &[&|v| unlink(v, "big"), &|v| create(v, "again")],
    ),
    (
        "unlink, create, write",
        &[&|v| unlink(v, "d/x"), &|v| create(v, "d/x"), &|v| {
            write(v, "d/x", 0, b"a new life")
        }],
    ),
    (
        "rmdir, mkdir",
        &[&|v| rmdir(v, "empty"), &|v| mkdir(v, "empty")],
    ),
    (
        "rename there and back",
        &[&|v| rename(v, "d/x", "e/x", Replace), &|v| {
            rename(v, "e/x", "d/x", Replace)
        }],
    ),
    (
        "mkdir, rename into it",
        &[&|v| mkdir(v, "deeper"), &|v| {
            rename(v, "d", "deeper/d", Replace)
        }],
    ),
    (
        "link, unlink the first",
        &[&|v| link(v, "big", "e/other"), &|v| unlink(v, "big")],
    ),
    (
        "chmod, setxattr, truncate",
        &[
            &|v| chmod(v, "big", 0o600),
            &|v| set_xattr(v, "big", "user.more", &bytes(4, 3000)),
            &|v| truncate(v, "big", 1),
        ],
    ),
    (
        "orphan, create",
        &[&|v| delete_orphan(v, "big"), &|v| create(v, "next")],
    ),
];

#[test]
fn operations_that_returned_stay_when_the_next_one_is_cut_off() {
    for (name, steps) in SEQUENCES {
        Explorer::new().explore(name, &small_tree, steps);
        Explorer::new()
            .pools(2)
            .fresh()
            .images(3)
            .explore(name, &small_tree, steps);
    }
}

#[test]
fn a_log_is_compacted_wholly_or_not_at_all() {
    let file = |v: &Volume| {
        small_tree(v);
        lengthen_log(v, "big");
    };
    Explorer::new().explore(
        "compact a file",
        &file,
        &[&|v| chmod(v, "big", 0o640), &|v| {
            write(v, "big", 4000, b"behind it")
        }],
    );
    let directory = |v: &Volume| {
        small_tree(v);
        for round in 0..63 * 9 {
            create(v, &format!("d/{round}"));
            unlink(v, &format!("d/{round}"));
        }
    };
    Explorer::new().explore(
        "compact a directory",
        &directory,
        &[&|v| create(v, "d/one"), &|v| {
            rename(v, "d/x", "e/x", Replace)
        }],
    );
}

#[test]
fn the_first_inode_of_a_block_of_inodes_brings_its_block() {
    let full = |v: &Volume| {
        small_tree(v);
        // Until the next inode needs a block that is not there.
        let mut number = 0;
        while v.attributes(ino(v, "big")).is_ok() && !next_needs_block(v) {
            create(v, &format!("d/{number}"));
            number += 1;
        }
    };
    Explorer::new().explore(
        "inode block",
        &full,
        &[&|v| create(v, "new"), &|v| mkdir(v, "newer")],
    );
}

/// Whether all numbers of the inode blocks there are, are taken.
fn next_needs_block(volume: &Volume) -> bool {
    let space = volume.space(None);
    (space.inodes - space.free_inodes).is_multiple_of(egeria_fs::format::INODES_PER_BLOCK)
}

#[test]
fn a_second_crash_in_recovery_changes_nothing() {
    let explorer = Explorer {
        crashes_in_recovery: 4,
        ..Explorer::new().images(2)
    };
    let journalled: [(&str, Step<'_>); 4] = [
        ("create", &|v| create(v, "new")),
        ("rename across, over a file", &|v| {
            rename(v, "d/x", "e/y", Replace)
        }),
        ("exchange directories", &|v| {
            rename(v, "d/sub", "e", Exchange)
        }),
        ("delete an orphan", &|v| delete_orphan(v, "big")),
    ];
    for (name, step) in journalled {
        explorer.explore(name, &small_tree, &[step]);
        explorer.pools(2).explore(name, &small_tree, &[step]);
    }
}

/// Whether the explorer finds something wrong.
fn notices(explorer: Explorer, steps: &[Step<'_>]) -> bool {
    let recorded = explorer.record(&small_tree, steps);
    explorer.look("sabotage", &recorded).is_err()
}

#[test]
fn the_explorer_notices_what_the_media_did_not_get() {
    let explorer = Explorer::new().images(24);
    let over: [Step<'_>; 1] = [&|v| rename(v, "d/x", "e/y", Replace)];
    let (flushes, fences) = explorer.record(&small_tree, &over).seen;
    // The last two of each forget the journal and the orphan; with nothing after them they may be late.
    for flush in 0..flushes - 2 {
        let without_flush = Some(flush);
        let explorer = Explorer {
            without_flush,
            ..explorer
        };
        assert!(
            notices(explorer, &over),
            "flush {flush} of {flushes} was not missed"
        );
    }
    for fence in 0..fences - 2 {
        let without_fence = Some(fence);
        let explorer = Explorer {
            without_fence,
            ..explorer
        };
        assert!(
            notices(explorer, &over),
            "fence {fence} of {fences} was not missed"
        );
    }
}

#[test]
fn the_explorer_notices_a_journal_that_is_kept_too_long() {
    // Completed once more, the rename takes the file's log back to before the change.
    let steps: [Step<'_>; 2] = [&|v| rename(v, "d/x", "e/x", Replace), &|v| {
        chmod(v, "e/x", 0o600)
    }];
    let explorer = Explorer::new().images(10);
    let (flushes, _) = explorer.record(&small_tree, &steps[..1]).seen;
    let without_flush = Some(flushes - 1);
    assert!(notices(
        Explorer {
            without_flush,
            ..explorer
        },
        &steps
    ));
}
