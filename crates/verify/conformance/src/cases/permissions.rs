//! Who may do what: owners, groups, others; sticky and set-group-id directories; bits that go.

use super::words::*;
use std::ffi::CStr;

cases!("permissions":
    every_class_by_every_bit, directories_by_every_bit, the_first_class_that_fits_counts,
    further_groups_count, new_files_belong_to_the_caller, setgid_directories_give_their_group,
    sticky_directories_keep_what_is_of_others, sticky_directories_by_every_owner, root_may_all, removal_needs_the_directory,
    search_needs_execution, open_files_outlive_permissions, descriptors_serve_whoever_has_them,
);

/// Reading, writing, executing a file, as bits.
fn granted(path: &CStr) -> u32 {
    let allowed = |answer: Answer<()>| match answer {
        Ok(()) => true,
        Err(Errno(EACCES)) => false,
        Err(error) => panic!("{error:?}"),
    };
    let reads = allowed(open(path, O_RDONLY, 0).map(drop));
    let writes = allowed(open(path, O_WRONLY, 0).map(drop));
    assert_eq!(allowed(open(path, O_RDWR, 0).map(drop)), reads && writes);
    let executes = allowed(access(path, X_OK));
    assert_eq!(
        (allowed(access(path, R_OK)), allowed(access(path, W_OK))),
        (reads, writes)
    );
    u32::from(reads) << 2 | u32::from(writes) << 1 | u32::from(executes)
}

/// Users, their groups, and how far the bits of their class are shifted.
const CLASSES: [(u32, u32, &[u32], u32); 4] = [
    (ALICE, ALICE, &[], 6),
    (BOB, TEAM, &[], 3),
    (BOB, BOB, &[TEAM], 3),
    (BOB, BOB, &[ALICE], 0),
];

fn every_class_by_every_bit() {
    needs_root();
    for bits in 0..8u32 {
        for shift in [6, 3, 0] {
            let path = name(format!("f{shift}{bits}"));
            file(&path, b"#!/bin/sh\n");
            chown(&path, ALICE, TEAM).unwrap();
            chmod(&path, bits << shift).unwrap();
        }
    }
    for (user, group, further, own) in CLASSES {
        as_user(user, group, further, || {
            for bits in 0..8u32 {
                for shift in [6, 3, 0] {
                    let expected = if shift == own { bits } else { 0 };
                    let found = granted(&name(format!("f{shift}{bits}")));
                    assert_eq!(
                        found, expected,
                        "user {user} group {group}, mode {bits:o} << {shift}"
                    );
                }
            }
        });
    }
}

fn directories_by_every_bit() {
    needs_root();
    for bits in 0..8u32 {
        let path = name(format!("d{bits}"));
        mkdir(&path, 0o755).unwrap();
        file(&name(format!("d{bits}/f")), b"");
        mkdir(&name(format!("d{bits}/s")), 0o755).unwrap();
        chmod(&name(format!("d{bits}/f")), 0o666).unwrap();
        chown(&path, ALICE, ALICE).unwrap();
        chmod(&path, bits << 6).unwrap();
    }
    as_user(ALICE, ALICE, &[], || {
        for bits in 0..8u32 {
            let (reads, writes, searches) = (bits & 4 != 0, bits & 2 != 0, bits & 1 != 0);
            let inside = |path: &str| name(format!("d{bits}/{path}"));
            let expect = |allowed: bool, answer: Answer<()>| {
                if allowed {
                    answer.unwrap_or_else(|error| panic!("{error:?} with {bits:o}"))
                } else {
                    fails(EACCES, answer)
                }
            };
            expect(
                reads,
                open(&name(format!("d{bits}")), O_RDONLY, 0).map(drop),
            );
            expect(searches, stat(&inside("f")).map(drop));
            expect(searches, open(&inside("f"), O_RDWR, 0).map(drop));
            expect(
                searches,
                chdir(&name(format!("d{bits}"))).and_then(|()| chdir(c"..")),
            );
            let changes = writes && searches;
            expect(
                changes,
                open(&inside("g"), O_CREAT | O_RDWR, 0o644).map(drop),
            );
            expect(changes, mkdir(&inside("e"), 0o755));
            expect(changes, symlink(c"x", &inside("l")));
            expect(changes, mknod(&inside("p"), S_IFIFO | 0o644, 0));
            expect(changes, link(&inside("f"), &inside("h")));
            expect(changes, rename(&inside("f"), &inside("i")));
            expect(changes, rmdir(&inside("s")));
            expect(changes, unlink(&inside(if changes { "i" } else { "f" })));
        }
    });
}

fn the_first_class_that_fits_counts() {
    needs_root();
    file(c"f", b"");
    chown(c"f", ALICE, TEAM).unwrap();
    chmod(c"f", 0o077).unwrap();
    as_user(ALICE, TEAM, &[], || assert_eq!(granted(c"f"), 0));
    as_user(BOB, TEAM, &[], || assert_eq!(granted(c"f"), 7));
    chmod(c"f", 0o707).unwrap();
    as_user(BOB, TEAM, &[], || assert_eq!(granted(c"f"), 0));
}

fn further_groups_count() {
    needs_root();
    mkdir(c"d", 0o770).unwrap();
    chown(c"d", 0, TEAM).unwrap();
    chmod(c"d", 0o770).unwrap();
    let many: Vec<u32> = (50_000..50_100).chain([TEAM]).collect();
    as_user(BOB, BOB, &many, || file(c"d/f", b""));
    as_user(BOB, BOB, &many[..100], || fails(EACCES, stat(c"d/f")));
}

fn new_files_belong_to_the_caller() {
    chmod(c".", 0o777).unwrap();
    as_user(ALICE, BOB, &[TEAM], || {
        file(c"f", b"");
        mkdir(c"d", 0o755).unwrap();
        symlink(c"x", c"l").unwrap();
        mknod(c"p", S_IFIFO | 0o644, 0).unwrap();
        for path in [c"f", c"d", c"l", c"p"] {
            let facts = lstat(path).unwrap();
            assert_eq!((facts.st_uid, facts.st_gid), (ALICE, BOB));
        }
    });
}

fn setgid_directories_give_their_group() {
    needs_root();
    mkdir(c"d", 0o777).unwrap();
    chown(c"d", 0, TEAM).unwrap();
    chmod(c"d", 0o2777).unwrap();
    as_user(ALICE, ALICE, &[], || {
        file(c"d/f", b"");
        mkdir(c"d/e", 0o755).unwrap();
        mkdir(c"d/e/deeper", 0o755).unwrap();
        symlink(c"x", c"d/l").unwrap();
        for path in [c"d/f", c"d/e", c"d/e/deeper", c"d/l"] {
            let facts = lstat(path).unwrap();
            assert_eq!((facts.st_uid, facts.st_gid), (ALICE, TEAM));
        }
        assert_eq!(
            (mode(c"d/e"), mode(c"d/e/deeper"), mode(c"d/f")),
            (0o2755, 0o2755, 0o644)
        );
        // Nobody gets set-group-id programs of a group that is not theirs.
        drop(open(c"d/g", O_CREAT | O_RDWR, 0o2755).unwrap());
        assert_eq!(mode(c"d/g"), 0o755);
    });
}

fn sticky_directories_keep_what_is_of_others() {
    needs_root();
    mkdir(c"d", 0o777).unwrap();
    chmod(c"d", 0o1777).unwrap();
    mkdir(c"free", 0o777).unwrap();
    chmod(c"free", 0o777).unwrap();
    as_user(ALICE, ALICE, &[], || {
        file(c"d/f", b"");
        mkdir(c"d/e", 0o777).unwrap();
        file(c"free/f", b"");
    });
    as_user(BOB, BOB, &[], || {
        file(c"d/mine", b"");
        fails(EPERM, unlink(c"d/f"));
        fails(EPERM, rmdir(c"d/e"));
        fails(EPERM, rename(c"d/f", c"d/g"));
        fails(EPERM, rename(c"d/mine", c"d/f"));
        fails(EPERM, renameat2(c"d/mine", c"d/f", RENAME_EXCHANGE));
        fails(EPERM, rename(c"d/f", c"free/g"));
        rename(c"d/mine", c"d/renamed").unwrap();
        unlink(c"d/renamed").unwrap();
        unlink(c"free/f").unwrap();
    });
    as_user(ALICE, ALICE, &[], || unlink(c"d/f").unwrap());
    chown(c"d", BOB, BOB).unwrap();
    as_user(BOB, BOB, &[], || rmdir(c"d/e").unwrap());
}

fn root_may_all() {
    needs_root();
    mkdir(c"d", 0).unwrap();
    chown(c"d", ALICE, ALICE).unwrap();
    file(c"d/f", b"data");
    chown(c"d/f", ALICE, ALICE).unwrap();
    chmod(c"d/f", 0).unwrap();
    holds(c"d/f", b"data");
    file(c"d/f", b"more");
    chmod(c"d/f", 0o400).unwrap();
    chown(c"d/f", BOB, BOB).unwrap();
    unlink(c"d/f").unwrap();
}

fn removal_needs_the_directory() {
    needs_root();
    mkdir(c"mine", 0o755).unwrap();
    file(c"mine/of-root", b"");
    mkdir(c"theirs", 0o755).unwrap();
    file(c"theirs/of-alice", b"");
    chown(c"mine", ALICE, ALICE).unwrap();
    chown(c"theirs/of-alice", ALICE, ALICE).unwrap();
    as_user(ALICE, ALICE, &[], || {
        unlink(c"mine/of-root").unwrap();
        fails(EACCES, unlink(c"theirs/of-alice"));
        fails(EACCES, rename(c"theirs/of-alice", c"mine/f"));
        fails(EACCES, link(c"theirs/of-alice", c"theirs/again"));
        link(c"theirs/of-alice", c"mine/again").unwrap();
        fails(EACCES, rmdir(c"theirs"));
    });
}

fn search_needs_execution() {
    needs_root();
    mkdir(c"a", 0o755).unwrap();
    mkdir(c"a/b", 0o755).unwrap();
    mkdir(c"a/b/c", 0o777).unwrap();
    file(c"a/b/c/f", b"");
    symlink(c"a/b/c/f", c"l").unwrap();
    chmod(c"a/b", 0o644).unwrap();
    as_user(ALICE, ALICE, &[], || {
        for path in [c"a/b/c", c"a/b/c/f", c"a/b/none", c"l"] {
            fails(EACCES, stat(path));
            fails(EACCES, open(path, O_RDONLY, 0));
            fails(EACCES, access(path, F_OK));
        }
        fails(EACCES, truncate(c"a/b/c/f", 0));
        fails(EACCES, readlink(c"a/b/c", 10));
        fails(EACCES, get_xattr(c"a/b/c", c"user.a", 10));
        fails(EACCES, statfs(c"a/b/c"));
        assert_eq!(std::fs::read_dir("a/b").unwrap().count(), 1);
    });
}

fn open_files_outlive_permissions() {
    chmod(c".", 0o777).unwrap();
    as_user(ALICE, ALICE, &[], || {
        let f = make(c"f");
        put(f.0, b"before");
        fchmod(f.0, 0).unwrap();
        put(f.0, b" after");
        assert_same(&content(f.0), b"before after");
        fails(EACCES, open(c"f", O_RDONLY, 0));
        ftruncate(f.0, 3).unwrap();
        fchmod(f.0, 0o600).unwrap();
        holds(c"f", b"bef");
    });
}

fn descriptors_serve_whoever_has_them() {
    file(c"f", b"secret");
    chmod(c"f", 0o600).unwrap();
    let f = open(c"f", O_RDWR, 0).unwrap();
    as_user(ALICE, ALICE, &[], || {
        assert_same(&content(f.0), b"secret");
        assert_eq!(pwrite(f.0, b"S", 0), Ok(1));
        assert_eq!(fstat(f.0).unwrap().st_size, 6);
        fails(EPERM, fchmod(f.0, 0o644));
        fails(EPERM, fchown(f.0, ALICE, ALICE));
        fails(
            EACCES,
            open(&name(format!("/proc/self/fd/{}", f.0)), O_RDONLY, 0),
        );
    });
    holds(c"f", b"Secret");
}

/// Who may remove, rename away, or rename onto what in a sticky directory: the owners of either.
fn sticky_directories_by_every_owner() {
    needs_root();
    let owners = [ALICE, BOB, 0];
    let makes: [fn(&CStr); 3] = [
        |path| file(path, b""),
        |path| mkdir(path, 0o777).unwrap(),
        |path| symlink(c"x", path).unwrap(),
    ];
    for (directory_owner, owner) in owners
        .iter()
        .flat_map(|one| owners.map(|other| (*one, other)))
    {
        let may = directory_owner == ALICE || owner == ALICE;
        for make in makes {
            let [directory, inside] = [c"sticky", c"sticky/x"];
            mkdir(directory, 0o777).unwrap();
            make(inside);
            chown(directory, directory_owner, directory_owner).unwrap();
            lchown(inside, owner, owner).unwrap();
            chmod(directory, 0o1777).unwrap();
            let is_directory = lstat(inside).unwrap().st_mode & S_IFMT == S_IFDIR;
            as_user(ALICE, ALICE, &[], || {
                let expect = |answer: Answer<()>| match (may, answer) {
                    (true, answer) => answer.unwrap(),
                    (false, answer) => fails(EPERM, answer),
                };
                // A directory of others may be renamed only by whoever may write it: its `..` stays here.
                expect(rename(inside, c"sticky/y"));
                let now = if may { c"sticky/y" } else { inside };
                if is_directory {
                    mkdir(c"sticky/mine", 0o755).unwrap()
                } else {
                    file(c"sticky/mine", b"")
                }
                expect(rename(c"sticky/mine", now));
                expect(if is_directory {
                    rmdir(now)
                } else {
                    unlink(now)
                });
            });
            std::fs::remove_dir_all("sticky").unwrap();
        }
    }
}
