//! `rename` and `renameat2`.

use super::words::*;
use crate::call;
use egeria_stats::rng::Rng;

cases!("rename":
    files_replace_files, directories_replace_empty_ones, kinds_do_not_mix, across_directories,
    what_is_missing, into_itself, two_names_of_one_file, without_replacing, exchanging,
    whiteouts_are_refused, flags_that_make_no_sense, open_files_follow, long_and_short_names, moves_times,
    refused_moves_no_times, symlinks_are_moved_not_followed, of_every_kind, racing_renames_lose_nothing,
    open_files_have_their_new_paths, through_a_slash_at_the_end, relative_to_directories, what_is_moved_stays_the_same,
);

fn files_replace_files() {
    file(c"f", b"new");
    file(c"g", b"old");
    let number = stat(c"f").unwrap().st_ino;
    rename(c"f", c"g").unwrap();
    fails(ENOENT, stat(c"f"));
    holds(c"g", b"new");
    assert_eq!(stat(c"g").unwrap().st_ino, number);
    rename(c"g", c"g").unwrap();
    holds(c"g", b"new");
}

fn directories_replace_empty_ones() {
    mkdir(c"d", 0o700).unwrap();
    file(c"d/f", b"inside");
    mkdir(c"empty", 0o755).unwrap();
    rename(c"d", c"empty").unwrap();
    holds(c"empty/f", b"inside");
    assert_eq!(mode(c"empty"), 0o700);
    mkdir(c"d", 0o755).unwrap();
    for full in [c"empty", c"empty/"] {
        match rename(c"d", full) {
            Err(Errno(ENOTEMPTY | EEXIST)) => {}
            answer => panic!("{answer:?}"),
        }
    }
    holds(c"empty/f", b"inside");
}

fn kinds_do_not_mix() {
    file(c"f", b"");
    mkdir(c"d", 0o755).unwrap();
    symlink(c"d", c"l").unwrap();
    fails(EISDIR, rename(c"f", c"d"));
    fails(ENOTDIR, rename(c"d", c"f"));
    fails(EISDIR, rename(c"l", c"d"));
    fails(ENOTDIR, rename(c"d", c"l"));
    fails(ENOTDIR, rename(c"f/x", c"g"));
    fails(ENOTDIR, rename(c"f", c"f/x"));
}

fn across_directories() {
    mkdir(c"a", 0o755).unwrap();
    mkdir(c"b", 0o755).unwrap();
    mkdir(c"a/d", 0o755).unwrap();
    file(c"a/d/f", b"deep");
    rename(c"a/d", c"b/e").unwrap();
    holds(c"b/e/f", b"deep");
    rename(c"b/e/f", c"a/f").unwrap();
    holds(c"a/f", b"deep");
    rename(c"a/f", c"b/e/f").unwrap();
    rename(c"b", c"a/b").unwrap();
    holds(c"a/b/e/f", b"deep");
    assert_eq!(
        stat(c"a/b/e/../../..").unwrap().st_ino,
        stat(c".").unwrap().st_ino
    );
}

fn what_is_missing() {
    file(c"f", b"");
    fails(ENOENT, rename(c"none", c"g"));
    fails(ENOENT, rename(c"f", c"none/g"));
    fails(ENOENT, rename(c"", c"g"));
    fails(ENOENT, rename(c"f", c""));
    fails(ENOENT, rename(c"none", c"f"));
    stat(c"f").unwrap();
}

fn into_itself() {
    mkdir(c"d", 0o755).unwrap();
    mkdir(c"d/e", 0o755).unwrap();
    fails(EINVAL, rename(c"d", c"d/x"));
    fails(EINVAL, rename(c"d", c"d/e/x"));
    fails(EINVAL, rename(c"d", c"d/e"));
    fails(ENOTEMPTY, rename(c"d/e", c"d"));
    for (from, to) in [
        (c".", c"x"),
        (c"..", c"x"),
        (c"d", c"."),
        (c"d/.", c"x"),
        (c"d", c"d/.."),
    ] {
        fails(EBUSY, rename(from, to));
    }
}

fn two_names_of_one_file() {
    file(c"f", b"data");
    link(c"f", c"g").unwrap();
    changes(&[(c"f", ""), (c".", "")], || rename(c"f", c"g").unwrap());
    holds(c"f", b"data");
    holds(c"g", b"data");
    assert_eq!(stat(c"f").unwrap().st_nlink, 2);
    fails(EEXIST, renameat2(c"f", c"g", RENAME_NOREPLACE));
}

fn without_replacing() {
    file(c"f", b"f");
    file(c"g", b"g");
    mkdir(c"d", 0o755).unwrap();
    symlink(c"none", c"l").unwrap();
    for target in [c"g", c"d", c"l", c"f"] {
        fails(EEXIST, renameat2(c"f", target, RENAME_NOREPLACE));
    }
    fails(ENOENT, renameat2(c"none", c"h", RENAME_NOREPLACE));
    renameat2(c"f", c"h", RENAME_NOREPLACE).unwrap();
    holds(c"h", b"f");
    renameat2(c"d", c"e", RENAME_NOREPLACE).unwrap();
    holds(c"g", b"g");
}

fn exchanging() {
    file(c"f", b"f");
    mkdir(c"d", 0o755).unwrap();
    file(c"d/g", b"g");
    symlink(c"x", c"d/l").unwrap();
    renameat2(c"f", c"d/g", RENAME_EXCHANGE).unwrap();
    holds(c"f", b"g");
    holds(c"d/g", b"f");
    renameat2(c"f", c"d/l", RENAME_EXCHANGE).unwrap();
    assert_eq!(readlink(c"f", 10), Ok(b"x".to_vec()));
    mkdir(c"e", 0o755).unwrap();
    mkdir(c"e/in", 0o755).unwrap();
    renameat2(c"d/l", c"e/in", RENAME_EXCHANGE).unwrap();
    assert_eq!(stat(c"d/l/..").unwrap().st_ino, stat(c"d").unwrap().st_ino);
    renameat2(c"d", c"e", RENAME_EXCHANGE).unwrap();
    holds(c"e/g", b"f");
    fails(ENOENT, renameat2(c"d", c"none", RENAME_EXCHANGE));
    fails(ENOENT, renameat2(c"none", c"d", RENAME_EXCHANGE));
    fails(EINVAL, renameat2(c"e", c"e/l", RENAME_EXCHANGE));
    fails(EINVAL, renameat2(c"e/l", c"e", RENAME_EXCHANGE));
}

/// Unless the file system has them; then it must put one there.
fn whiteouts_are_refused() {
    file(c"f", b"data");
    match renameat2(c"f", c"g", RENAME_WHITEOUT) {
        Ok(()) => assert_eq!(lstat(c"f").unwrap().st_mode & S_IFMT, S_IFCHR),
        answer => {
            fails(EINVAL, answer);
            holds(c"f", b"data");
            fails(ENOENT, stat(c"g"));
        }
    }
}

fn flags_that_make_no_sense() {
    file(c"f", b"");
    file(c"g", b"");
    fails(
        EINVAL,
        renameat2(c"f", c"g", RENAME_NOREPLACE | RENAME_EXCHANGE),
    );
    fails(
        EINVAL,
        renameat2(c"f", c"g", RENAME_WHITEOUT | RENAME_EXCHANGE),
    );
    fails(EINVAL, renameat2(c"f", c"g", 1 << 20));
}

fn open_files_follow() {
    let f = make(c"f");
    put(f.0, b"before ");
    mkdir(c"d", 0o755).unwrap();
    rename(c"f", c"d/g").unwrap();
    put(f.0, b"after");
    holds(c"d/g", b"before after");
    let link = std::fs::read_link(format!("/proc/self/fd/{}", f.0)).unwrap();
    assert!(link.ends_with("d/g"), "{link:?}");
}

fn long_and_short_names() {
    let long = [1, 100, 200, 255].map(|bytes| name("n".repeat(bytes)));
    file(&long[0], b"data");
    for pair in [(0, 3), (3, 1), (1, 2), (2, 3), (3, 0)] {
        rename(&long[pair.0], &long[pair.1]).unwrap();
        holds(&long[pair.1], b"data");
        assert_eq!(std::fs::read_dir(".").unwrap().count(), 1);
    }
}

fn moves_times() {
    for path in [c"a", c"b"] {
        mkdir(path, 0o755).unwrap();
    }
    let both = [(c"a", "mc"), (c"b", "mc")];
    file(c"a/f", b"");
    changes(&both, || rename(c"a/f", c"b/f").unwrap());
    mkdir(c"a/d", 0o755).unwrap();
    changes(&both, || rename(c"a/d", c"b/d").unwrap());
    changes(&[(c"a", ""), (c"b", "mc")], || {
        rename(c"b/f", c"b/g").unwrap()
    });
    file(c"a/h", b"");
    link(c"b/g", c"kept").unwrap();
    changes(&[(c"a", "mc"), (c"b", "mc"), (c"kept", "c")], || {
        rename(c"a/h", c"b/g").unwrap()
    });
    file(c"a/x", b"");
    changes(&both, || {
        renameat2(c"a/x", c"b/g", RENAME_EXCHANGE).unwrap()
    });
    // Most file systems move the time of what is renamed, none moves that of its content.
    let before = times(&stat(c"b/d").unwrap());
    tick();
    rename(c"b/d", c"b/e").unwrap();
    assert_eq!(times(&stat(c"b/e").unwrap())[1], before[1]);
    assert!(times(&stat(c"b/e").unwrap())[2] > before[2]);
}

fn refused_moves_no_times() {
    mkdir(c"d", 0o755).unwrap();
    file(c"d/f", b"");
    file(c"g", b"");
    changes(&[(c"d", ""), (c"d/f", ""), (c"g", ""), (c".", "")], || {
        fails(ENOTDIR, rename(c"d", c"g"));
        fails(EEXIST, renameat2(c"g", c"d/f", RENAME_NOREPLACE));
        fails(ENOENT, rename(c"d/none", c"g"));
    });
}

fn symlinks_are_moved_not_followed() {
    file(c"f", b"data");
    symlink(c"f", c"l").unwrap();
    rename(c"l", c"m").unwrap();
    assert_eq!(readlink(c"m", 10), Ok(b"f".to_vec()));
    file(c"g", b"other");
    rename(c"g", c"m").unwrap();
    holds(c"m", b"other");
    holds(c"f", b"data");
    assert_eq!(lstat(c"m").unwrap().st_mode & S_IFMT, S_IFREG);
}

fn of_every_kind() {
    let kinds: [fn() -> Answer<()>; 5] = [
        || mknod(c"x", S_IFREG | 0o644, 0),
        || mknod(c"x", S_IFIFO | 0o644, 0),
        || mknod(c"x", S_IFSOCK | 0o644, 0),
        || symlink(c"t", c"x"),
        || mkdir(c"x", 0o755),
    ];
    for (at, one) in kinds.iter().enumerate() {
        one().unwrap();
        let facts = lstat(c"x").unwrap();
        rename(c"x", c"y").unwrap();
        let moved = lstat(c"y").unwrap();
        assert_eq!((facts.st_ino, facts.st_mode), (moved.st_ino, moved.st_mode));
        for (other_at, other) in kinds.iter().enumerate() {
            other().unwrap();
            match (at == 4, other_at == 4) {
                (true, false) => fails(ENOTDIR, rename(c"y", c"x")),
                (false, true) => fails(EISDIR, rename(c"y", c"x")),
                _ => rename(c"x", c"y").unwrap(),
            }
            // For the next: `y` is of the one kind again, `x` is gone.
            let _ = unlink(c"x").or_else(|_| rmdir(c"x"));
            let _ = unlink(c"y").or_else(|_| rmdir(c"y"));
            one().unwrap();
            rename(c"x", c"y").unwrap();
        }
        let _ = unlink(c"y").or_else(|_| rmdir(c"y"));
    }
}

fn racing_renames_lose_nothing() {
    file(c"0", b"the one");
    let children: Vec<Child> = (0..3)
        .map(|racer| {
            Child::begin(move || {
                let mut rng = Rng::new(77 + racer);
                for _ in 0..150 {
                    let [from, to] = [0; 2].map(|_| name(rng.index(4).to_string()));
                    match rename(&from, &to) {
                        Ok(()) | Err(Errno(ENOENT)) => {}
                        answer => panic!("{answer:?}"),
                    }
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::join);
    let left: Vec<_> = std::fs::read_dir(".")
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 1, "{left:?}");
    holds(&name(left[0].as_encoded_bytes()), b"the one");
}

fn through_a_slash_at_the_end() {
    mkdir(c"d", 0o755).unwrap();
    file(c"f", b"");
    symlink(c"d", c"l").unwrap();
    fails(ENOTDIR, rename(c"f/", c"g"));
    fails(ENOTDIR, rename(c"f", c"g/"));
    fails(ENOTDIR, rename(c"l/", c"g"));
    rename(c"d/", c"e").unwrap();
    rename(c"e", c"d/").unwrap();
    stat(c"d").unwrap();
}

fn relative_to_directories() {
    mkdir(c"a", 0o755).unwrap();
    mkdir(c"b", 0o755).unwrap();
    file(c"a/f", b"data");
    let [a, b] = [c"a", c"b"].map(|path| open(path, O_RDONLY | O_DIRECTORY, 0).unwrap());
    let at = |from: i32, to: i32| call::renameat((from, c"f"), (to, c"g"));
    fails(EBADF, at(-1, b.0));
    fails(EBADF, at(a.0, -1));
    let f = open(c"a/f", O_RDONLY, 0).unwrap();
    fails(ENOTDIR, at(a.0, f.0));
    at(a.0, b.0).unwrap();
    holds(c"b/g", b"data");
}

/// Files that are open for the first time, moved within a directory, out of it, and with a second name.
fn open_files_have_their_new_paths() {
    let path_of = |fd: &Fd| std::fs::read_link(format!("/proc/self/fd/{}", fd.0)).unwrap();
    let here = std::env::current_dir().unwrap();
    mkdir(c"d", 0o755).unwrap();
    for (from, to) in [(c"a", c"b"), (c"b", c"a"), (c"a", c"d/a"), (c"d/a", c"d/b")] {
        let mut opened = Vec::new();
        for flags in [O_RDWR | O_CREAT, O_RDONLY, O_WRONLY | O_APPEND | O_DIRECT] {
            opened.push(open(from, flags, 0o644).unwrap());
        }
        let made = pattern(7, 5000);
        assert_eq!(pwrite(opened[0].0, &made, 0), Ok(5000));
        rename(from, to).unwrap();
        holds(to, &made);
        for fd in &opened {
            assert_eq!(fstat(fd.0).unwrap().st_ino, stat(to).unwrap().st_ino);
            assert_eq!(path_of(fd), here.join(to.to_str().unwrap()));
        }
        fails(ENOENT, stat(from));
    }
    rename(c"d/b", c"f").unwrap();
    link(c"f", c"first").unwrap();
    let f = open(c"f", O_RDWR, 0).unwrap();
    rename(c"f", c"last").unwrap();
    assert_eq!(path_of(&f), here.join("last"));
    // Unlinked under its new name, it stays open.
    rename(c"last", c"f").unwrap();
    unlink(c"f").unwrap();
    unlink(c"first").unwrap();
    assert_eq!(pwrite(f.0, b"x", 0), Ok(1));
    assert_eq!(fstat(f.0).unwrap().st_nlink, 0);
}

fn what_is_moved_stays_the_same() {
    let facts = |path| {
        let facts = lstat(path).unwrap();
        let key = (
            facts.st_dev,
            facts.st_ino,
            facts.st_mode,
            facts.st_nlink,
            facts.st_uid,
            facts.st_gid,
        );
        (
            key,
            facts.st_rdev,
            facts.st_size,
            facts.st_blksize,
            facts.st_blocks,
        )
    };
    mkdir(c"d", 0o751).unwrap();
    file(c"f", &pattern(1, 10_000));
    symlink(c"f", c"l").unwrap();
    for path in [c"d", c"f", c"l"] {
        let before = facts(path);
        rename(path, c"moved").unwrap();
        assert_eq!(facts(c"moved"), before);
        rename(c"moved", path).unwrap();
    }
}
