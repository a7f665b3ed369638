//! `mknod`, `mkdir`, `rmdir`.

use super::words::*;

cases!("making":
    every_kind_can_be_made, mknod_refusals, devices_keep_their_numbers, directories_are_made_and_removed,
    directory_refusals, link_counts_of_directories, dots_are_kept, names_that_differ_little,
    a_name_can_be_reused_at_once, creation_moves_times_of_the_parent, deep_trees,
);

fn every_kind_can_be_made() {
    for (kind, path) in [
        (S_IFREG, c"f"),
        (0, c"also-f"),
        (S_IFIFO, c"p"),
        (S_IFSOCK, c"s"),
    ] {
        mknod(path, kind | 0o640, 0).unwrap();
        let facts = lstat(path).unwrap();
        let expected = if kind == 0 { S_IFREG } else { kind };
        assert_eq!(
            (facts.st_mode, facts.st_nlink, facts.st_size),
            (expected | 0o640, 1, 0)
        );
        unlink(path).unwrap();
    }
    // A server's socket.
    let listener = std::os::unix::net::UnixListener::bind("socket").unwrap();
    apart(|| drop(std::os::unix::net::UnixStream::connect("socket").unwrap()));
    drop(listener);
    assert_eq!(lstat(c"socket").unwrap().st_mode & S_IFMT, S_IFSOCK);
}

fn mknod_refusals() {
    file(c"f", b"");
    for kind in [S_IFREG, S_IFIFO, S_IFSOCK] {
        fails(EEXIST, mknod(c"f", kind | 0o644, 0));
        fails(ENOENT, mknod(c"none/x", kind | 0o644, 0));
        fails(ENOTDIR, mknod(c"f/x", kind | 0o644, 0));
        fails(ENOENT, mknod(c"", kind | 0o644, 0));
    }
    fails(EPERM, mknod(c"d", S_IFDIR | 0o755, 0));
    fails(EINVAL, mknod(c"l", S_IFLNK | 0o777, 0));
    chmod(c".", 0o777).unwrap();
    as_user(ALICE, ALICE, &[], || {
        fails(EPERM, mknod(c"c", S_IFCHR | 0o666, makedev(1, 3)));
        fails(EPERM, mknod(c"b", S_IFBLK | 0o666, makedev(7, 0)));
        mknod(c"mine", S_IFIFO | 0o600, 0).unwrap();
    });
}

fn devices_keep_their_numbers() {
    needs_root();
    for (kind, path) in [(S_IFCHR, c"c"), (S_IFBLK, c"b")] {
        for (major, minor) in [(1, 3), (7, 0), (259, 65_537), (4_095, 1_048_575)] {
            mknod(path, kind | 0o600, makedev(major, minor)).unwrap();
            let facts = lstat(path).unwrap();
            assert_eq!(
                (facts.st_mode & S_IFMT, facts.st_rdev),
                (kind, makedev(major, minor))
            );
            unlink(path).unwrap();
        }
    }
}

fn directories_are_made_and_removed() {
    mkdir(c"d", 0o1750).unwrap();
    assert_eq!(lstat(c"d").unwrap().st_mode, S_IFDIR | 0o1750);
    mkdir(c"d/e", 0o755).unwrap();
    fails(ENOTEMPTY, rmdir(c"d"));
    rmdir(c"d/e").unwrap();
    file(c"d/f", b"");
    fails(ENOTEMPTY, rmdir(c"d"));
    unlink(c"d/f").unwrap();
    rmdir(c"d").unwrap();
    fails(ENOENT, stat(c"d"));
}

fn directory_refusals() {
    file(c"f", b"");
    mkdir(c"d", 0o755).unwrap();
    symlink(c"none", c"dangling").unwrap();
    for path in [c"f", c"d", c".", c"dangling", c"d/", c"d/.."] {
        fails(EEXIST, mkdir(path, 0o755));
    }
    fails(ENOENT, mkdir(c"none/e", 0o755));
    fails(ENOENT, mkdir(c"", 0o755));
    fails(ENOTDIR, mkdir(c"f/e", 0o755));
    fails(ENOENT, rmdir(c"none"));
    fails(ENOENT, rmdir(c""));
    fails(ENOTDIR, rmdir(c"f"));
    fails(ENOTDIR, rmdir(c"f/e"));
    fails(EINVAL, rmdir(c"d/."));
    fails(ENOTEMPTY, rmdir(c"d/.."));
    fails(ENOTDIR, rmdir(c"dangling"));
}

fn link_counts_of_directories() {
    mkdir(c"d", 0o755).unwrap();
    mkdir(c"e", 0o755).unwrap();
    let links = |path| stat(path).unwrap().st_nlink;
    assert_eq!(links(c"d"), 2);
    mkdir(c"d/a", 0o755).unwrap();
    mkdir(c"d/b", 0o755).unwrap();
    file(c"d/f", b"");
    assert_eq!(links(c"d"), 4);
    rename(c"d/a", c"e/a").unwrap();
    assert_eq!((links(c"d"), links(c"e")), (3, 3));
    rmdir(c"d/b").unwrap();
    assert_eq!(links(c"d"), 2);
    renameat2(c"d/f", c"e/a", RENAME_EXCHANGE).unwrap();
    assert_eq!((links(c"d"), links(c"e")), (3, 2));
    mkdir(c"e/target", 0o755).unwrap();
    rename(c"d/f", c"e/target").unwrap();
    assert_eq!((links(c"d"), links(c"e")), (2, 3));
}

fn dots_are_kept() {
    mkdir(c"d", 0o755).unwrap();
    let number = |path| stat(path).unwrap().st_ino;
    assert_eq!(number(c"d/."), number(c"d"));
    assert_eq!(number(c"d/.."), number(c"."));
    mkdir(c"e", 0o755).unwrap();
    rename(c"d", c"e/d").unwrap();
    assert_eq!(number(c"e/d/.."), number(c"e"));
    fails(EBUSY, rename(c"e/.", c"x"));
    fails(EBUSY, rename(c"e/..", c"x"));
    file(c"...", b"a name");
    holds(c"...", b"a name");
}

fn names_that_differ_little() {
    let names: Vec<_> = (0..300)
        .map(|at| name(format!("{}{at}", "x".repeat(at % 200))))
        .collect();
    for each in &names {
        file(each, each.to_bytes());
    }
    for each in &names {
        holds(each, each.to_bytes());
    }
    fails(ENOENT, stat(c"X1"));
    fails(ENOENT, stat(c"x"));
    for each in &names {
        unlink(each).unwrap();
    }
    assert_eq!(std::fs::read_dir(".").unwrap().count(), 0);
}

fn a_name_can_be_reused_at_once() {
    for round in 0..50 {
        file(c"x", b"file");
        unlink(c"x").unwrap();
        mkdir(c"x", 0o755).unwrap();
        fails(EISDIR, open(c"x", O_WRONLY, 0));
        rmdir(c"x").unwrap();
        symlink(c"y", c"x").unwrap();
        fails(ENOENT, stat(c"x"));
        unlink(c"x").unwrap();
        fails(ENOENT, lstat(c"x"));
        assert_eq!(stat(c".").unwrap().st_nlink, 2, "round {round}");
    }
}

fn creation_moves_times_of_the_parent() {
    mkdir(c"d", 0o755).unwrap();
    file(c"f", b"");
    let parent: &[_] = &[(c"d", "mc")];
    changes(parent, || file(c"d/f", b""));
    changes(parent, || mkdir(c"d/e", 0o755).unwrap());
    changes(parent, || symlink(c"x", c"d/l").unwrap());
    changes(parent, || mknod(c"d/p", S_IFIFO | 0o644, 0).unwrap());
    let untouched: &[_] = &[(c"d", ""), (c"d/e", "")];
    changes(untouched, || {
        fails(EEXIST, mkdir(c"d/f", 0o755));
        fails(EEXIST, link(c"f", c"d/f"));
        fails(ENOTEMPTY, rmdir(c"d"));
        file(c"d/f", b"old name, new content");
    });
    let facts = stat(c"d/e").unwrap();
    let [_, content_ns, attributes_ns] = times(&facts);
    assert_eq!(content_ns, attributes_ns);
}

fn deep_trees() {
    for _ in 0..100 {
        mkdir(c"down", 0o755).unwrap();
        chdir(c"down").unwrap();
    }
    file(c"f", b"bottom");
    let up = name("../".repeat(100) + "top");
    rename(c"f", &up).unwrap();
    holds(&up, b"bottom");
    for _ in 0..100 {
        chdir(c"..").unwrap();
        rmdir(c"down").unwrap();
    }
    holds(c"top", b"bottom");
}
