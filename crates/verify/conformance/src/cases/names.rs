//! `link`, `unlink`, `symlink`, `readlink`, `mknod`, `mkdir`, `rmdir`.

use super::words::*;
use std::ffi::CString;

cases!("names":
    links_name_the_same_file, link_refusals, links_of_links_and_other_kinds, linkat_follows_when_asked,
    link_counts_are_fresh, unlinked_open_files_live, open_fifos_outlive_their_names,
    named_without_opening_outlives_the_name, unlink_refusals, unlinkat_removes_both_kinds,
    symlinks_hold_any_target, symlink_refusals, readlink_gives_what_fits,
    symlinks_are_followed_relative_to_themselves, names_are_bytes, links_to_other_file_systems,
    canonical_paths, canonical_path_refusals, canonical_paths_of_descriptors, removal_moves_times, linking_moves_times, no_links_from_the_unprivileged_to_directories,
);

fn links_name_the_same_file() {
    file(c"f", b"data");
    link(c"f", c"g").unwrap();
    let (f, g) = (stat(c"f").unwrap(), stat(c"g").unwrap());
    assert_eq!((f.st_ino, f.st_nlink), (g.st_ino, 2));
    put(open(c"g", O_WRONLY | O_APPEND, 0).unwrap().0, b" more");
    holds(c"f", b"data more");
    chmod(c"g", 0o604).unwrap();
    assert_eq!(mode(c"f"), 0o604);
    unlink(c"f").unwrap();
    holds(c"g", b"data more");
    assert_eq!(stat(c"g").unwrap().st_nlink, 1);
}

fn link_refusals() {
    file(c"f", b"");
    mkdir(c"d", 0o755).unwrap();
    symlink(c"none", c"dangling").unwrap();
    fails(EEXIST, link(c"f", c"f"));
    fails(EEXIST, link(c"f", c"d"));
    fails(EEXIST, link(c"f", c"dangling"));
    fails(ENOENT, link(c"none", c"g"));
    fails(ENOENT, link(c"f", c"none/g"));
    fails(ENOENT, link(c"", c"g"));
    fails(ENOENT, link(c"f", c""));
    fails(ENOTDIR, link(c"f/x", c"g"));
    fails(ENOTDIR, link(c"f", c"f/x"));
    fails(EPERM, link(c"d", c"e"));
    fails(ENOENT, link(c"f", c"g/"));
    fails(EINVAL, linkat((AT_FDCWD, c"f"), (AT_FDCWD, c"g"), 1 << 30));
    assert_eq!(stat(c"f").unwrap().st_nlink, 1);
}

fn links_of_links_and_other_kinds() {
    symlink(c"none", c"l").unwrap();
    mknod(c"p", S_IFIFO | 0o644, 0).unwrap();
    for (from, to) in [(c"l", c"l2"), (c"p", c"p2")] {
        link(from, to).unwrap();
        let (one, other) = (lstat(from).unwrap(), lstat(to).unwrap());
        assert_eq!(
            (one.st_ino, one.st_nlink, one.st_mode),
            (other.st_ino, 2, other.st_mode)
        );
    }
    assert_eq!(readlink(c"l2", 100), Ok(b"none".to_vec()));
}

fn linkat_follows_when_asked() {
    file(c"f", b"");
    symlink(c"f", c"l").unwrap();
    linkat((AT_FDCWD, c"l"), (AT_FDCWD, c"to-f"), AT_SYMLINK_FOLLOW).unwrap();
    assert_eq!(lstat(c"to-f").unwrap().st_ino, stat(c"f").unwrap().st_ino);
    mkdir(c"d", 0o755).unwrap();
    let d = open(c"d", O_RDONLY, 0).unwrap();
    linkat((AT_FDCWD, c"f"), (d.0, c"in-d"), 0).unwrap();
    linkat((d.0, c"in-d"), (AT_FDCWD, c"back"), 0).unwrap();
    assert_eq!(stat(c"back").unwrap().st_nlink, 4);
    fails(EBADF, linkat((-1, c"f"), (AT_FDCWD, c"x"), 0));
    let f = open(c"f", O_RDONLY, 0).unwrap();
    fails(ENOTDIR, linkat((f.0, c"f"), (AT_FDCWD, c"x"), 0));
}

fn link_counts_are_fresh() {
    let f = make(c"f");
    mkdir(c"d", 0o755).unwrap();
    let path = open(c"f", O_PATH, 0).unwrap();
    let everywhere = |expected: u64| {
        for facts in [
            stat(c"f"),
            lstat(c"./f"),
            fstat(f.0),
            fstat(path.0),
            fstatat(AT_FDCWD, c"d/../f", 0),
        ] {
            assert_eq!(facts.unwrap().st_nlink, expected);
        }
        assert_eq!(
            u64::from(statx(AT_FDCWD, c"f", 0, STATX_NLINK).unwrap().stx_nlink),
            expected
        );
    };
    everywhere(1);
    link(c"f", c"d/g").unwrap();
    everywhere(2);
    assert_eq!(stat(c"d/g").unwrap().st_nlink, 2);
    apart(|| link(c"f", c"h").unwrap());
    everywhere(3);
    file(c"other", b"");
    rename(c"other", c"h").unwrap();
    everywhere(2);
    unlink(c"d/g").unwrap();
    everywhere(1);
    let g = open(c"f", O_RDONLY, 0).unwrap();
    unlink(c"f").unwrap();
    for fd in [&f, &g, &path] {
        assert_eq!(fstat(fd.0).unwrap().st_nlink, 0);
    }
}

fn unlinked_open_files_live() {
    let f = make(c"f");
    put(f.0, b"data");
    unlink(c"f").unwrap();
    fails(ENOENT, stat(c"f"));
    put(f.0, b" more");
    assert_same(&content(f.0), b"data more");
    ftruncate(f.0, 4).unwrap();
    fchmod(f.0, 0o600).unwrap();
    let again = open(&name(format!("/proc/self/fd/{}", f.0)), O_RDWR, 0).unwrap();
    pwrite(again.0, b"DA", 0).unwrap();
    file(c"f", b"another");
    assert_same(&content(f.0), b"DAta");
    let fd = f.0;
    apart(move || assert_same(&content(fd), b"DAta"));
    assert_ne!(fstat(f.0).unwrap().st_ino, stat(c"f").unwrap().st_ino);
    // Replaced by a rename, it lives as well.
    let replaced = open(c"f", O_RDONLY, 0).unwrap();
    file(c"g", b"third");
    rename(c"g", c"f").unwrap();
    assert_same(&content(replaced.0), b"another");
}

/// The kernel moves their bytes by itself; the file system only remembers them.
fn open_fifos_outlive_their_names() {
    mknod(c"p", S_IFIFO | 0o644, 0).unwrap();
    let p = open(c"p", O_RDWR, 0).unwrap();
    let path = open(c"p", O_PATH, 0).unwrap();
    unlink(c"p").unwrap();
    for fd in [p.0, path.0] {
        let facts = fstat(fd).unwrap();
        assert_eq!((facts.st_nlink, facts.st_mode), (0, S_IFIFO | 0o644));
    }
    fchmod(p.0, 0o600).unwrap();
    put(p.0, b"through");
    assert_eq!(read(p.0, &mut [0; 7]), Ok(7));
    mknod(c"q", S_IFIFO | 0o644, 0).unwrap();
    let q = open(c"q", O_RDWR, 0).unwrap();
    file(c"f", b"");
    rename(c"f", c"q").unwrap();
    assert_eq!(fstat(q.0).unwrap().st_mode & S_IFMT, S_IFIFO);
}

fn named_without_opening_outlives_the_name() {
    file(c"f", b"data");
    let path = open(c"f", O_PATH, 0).unwrap();
    unlink(c"f").unwrap();
    assert_eq!(fstat(path.0).unwrap().st_nlink, 0);
    let again = open(&name(format!("/proc/self/fd/{}", path.0)), O_RDONLY, 0).unwrap();
    assert_same(&content(again.0), b"data");
}

fn unlink_refusals() {
    mkdir(c"d", 0o755).unwrap();
    file(c"f", b"");
    fails(ENOENT, unlink(c"none"));
    fails(ENOENT, unlink(c""));
    fails(EISDIR, unlink(c"d"));
    fails(ENOTDIR, unlink(c"f/g"));
    fails(EISDIR, unlink(c"."));
    symlink(c"d", c"to-d").unwrap();
    unlink(c"to-d").unwrap();
    stat(c"d").unwrap();
    fails(EINVAL, unlinkat(AT_FDCWD, c"f", 1 << 20));
    fails(EBADF, unlinkat(-1, c"f", 0));
}

fn unlinkat_removes_both_kinds() {
    mkdir(c"d", 0o755).unwrap();
    let d = open(c"d", O_RDONLY, 0).unwrap();
    mkdirat(d.0, c"e", 0o755).unwrap();
    file(c"d/f", b"");
    fails(EISDIR, unlinkat(d.0, c"e", 0));
    fails(ENOTDIR, unlinkat(d.0, c"f", AT_REMOVEDIR));
    unlinkat(d.0, c"e", AT_REMOVEDIR).unwrap();
    unlinkat(d.0, c"f", 0).unwrap();
    fails(ENOENT, unlinkat(d.0, c"f", 0));
    assert_eq!(fstat(d.0).unwrap().st_nlink, 2);
}

fn symlinks_hold_any_target() {
    for bytes in [1, 7, 59, 60, 255, 1_000, 4_094, 4_095] {
        let target = name("t".repeat(bytes));
        symlink(&target, c"l").unwrap();
        let facts = lstat(c"l").unwrap();
        assert_eq!(
            (facts.st_size, facts.st_mode),
            (bytes as i64, S_IFLNK | 0o777)
        );
        assert_eq!(readlink(c"l", 5_000).as_deref(), Ok(target.to_bytes()));
        unlink(c"l").unwrap();
    }
    symlink(c"\xff \n/../x", c"l").unwrap();
    assert_eq!(readlink(c"l", 100), Ok(b"\xff \n/../x".to_vec()));
}

fn symlink_refusals() {
    file(c"f", b"");
    fails(EEXIST, symlink(c"x", c"f"));
    fails(ENOENT, symlink(c"", c"l"));
    fails(ENOENT, symlink(c"x", c""));
    fails(ENOENT, symlink(c"x", c"none/l"));
    fails(ENOTDIR, symlink(c"x", c"f/l"));
    fails(ENAMETOOLONG, symlink(&name("t".repeat(4_096)), c"l"));
    fails(ENOENT, lstat(c"l"));
}

fn readlink_gives_what_fits() {
    symlink(c"target", c"l").unwrap();
    file(c"f", b"");
    assert_eq!(readlink(c"l", 3), Ok(b"tar".to_vec()));
    assert_eq!(readlink(c"l", 6), Ok(b"target".to_vec()));
    fails(EINVAL, readlink(c"l", 0));
    fails(EINVAL, readlink(c"f", 10));
    fails(EINVAL, readlink(c".", 10));
    fails(ENOENT, readlink(c"none", 10));
    fails(ENOTDIR, readlink(c"f/l", 10));
}

fn symlinks_are_followed_relative_to_themselves() {
    mkdir(c"d", 0o755).unwrap();
    file(c"d/f", b"inside");
    symlink(c"f", c"d/l").unwrap();
    symlink(c"d/l", c"l").unwrap();
    symlink(c"..", c"d/up").unwrap();
    holds(c"l", b"inside");
    holds(c"d/up/d/up/l", b"inside");
    symlink(c"d", c"to-d").unwrap();
    assert_eq!(lstat(c"to-d/").unwrap().st_mode & S_IFMT, S_IFDIR);
    fails(ENOTDIR, stat(c"l/"));
    fails(ENOTDIR, rmdir(c"to-d"));
}

/// A canonical path below the directory of the case.
fn below(path: &str) -> Answer<CString> {
    let here = std::env::current_dir().unwrap();
    let here = here.to_str().expect("plain names");
    let slash = if path.is_empty() { "" } else { "/" };
    Ok(CString::new(format!("{here}{slash}{path}")).unwrap())
}

fn canonical_paths() {
    mkdir(c"d", 0o755).unwrap();
    mkdir(c"d/e", 0o755).unwrap();
    file(c"d/e/f", b"");
    symlink(c"../d/./e", c"d/l").unwrap();
    symlink(c"e/f", c"d/to-f").unwrap();
    let here = std::env::current_dir().unwrap();
    let absolute = CString::new(format!("{}/d/e/f", here.display())).unwrap();
    symlink(&absolute, c"absolute").unwrap();
    for path in [
        c"d/e/f",
        c"./d//e/../e/./f",
        c"d/l/f",
        c"d/to-f",
        c"absolute",
        c"d/l/../to-f",
    ] {
        assert_eq!(realpath(path), below("d/e/f"), "{path:?}");
    }
    for path in [c"d/l", c"d/l/", c"d/e/", c"d/e/."] {
        assert_eq!(realpath(path), below("d/e"), "{path:?}");
    }
    assert_eq!(realpath(c"."), below(""));
    assert_eq!(realpath(c"d/.."), below(""));
    assert_eq!(realpath(&absolute), below("d/e/f"));
    let all = below("d/e");
    chdir(c"d/e").unwrap();
    let mut place = [b'x'; PATH_MAX as usize];
    assert_eq!(realpath_into(c"../l", &mut place), all);
    // The working directory has another name now.
    rename(c"../../d", c"../../g").unwrap();
    assert_eq!(realpath(c"f"), below("f"));
    assert!(realpath(c"f").unwrap().to_bytes().ends_with(b"/g/e/f"));
    assert_eq!(realpath(c"/dev/../dev/null"), Ok(c"/dev/null".into()));
}

fn canonical_path_refusals() {
    file(c"f", b"");
    mkdir(c"closed", 0o700).unwrap();
    mkdir(c"closed/d", 0o755).unwrap();
    symlink(c"l", c"l").unwrap();
    symlink(c"none", c"dangling").unwrap();
    fails(ENOENT, realpath(c""));
    fails(ENOENT, realpath(c"none"));
    fails(ENOENT, realpath(c"none/f"));
    fails(ENOENT, realpath(c"dangling"));
    fails(ENOTDIR, realpath(c"f/"));
    fails(ENOTDIR, realpath(c"f/.."));
    fails(ELOOP, realpath(c"l"));
    let mut place = [b'x'; PATH_MAX as usize];
    fails(ENOENT, realpath_into(c"none", &mut place));
    as_user(ALICE, ALICE, &[], || {
        fails(EACCES, realpath(c"closed/d"));
        fails(EACCES, realpath(c"closed/none"));
        assert_eq!(realpath(c"closed"), below("closed"));
    });
    mkdir(c"gone", 0o755).unwrap();
    chdir(c"gone").unwrap();
    rmdir(c"../gone").unwrap();
    fails(ENOENT, realpath(c"."));
}

fn canonical_paths_of_descriptors() {
    file(c"f", b"");
    let f = open(c"f", O_RDONLY, 0).unwrap();
    let through = CString::new(format!("/proc/self/fd/{}", f.0)).unwrap();
    assert_eq!(realpath(&through), below("f"));
    rename(c"f", c"g").unwrap();
    assert_eq!(realpath(&through), below("g"));
}

fn names_are_bytes() {
    let all: Vec<u8> = (1..=255u8).filter(|byte| *byte != b'/').collect();
    for part in all.chunks(100) {
        let path = name(part);
        file(&path, part);
        holds(&path, part);
    }
    file(c"\xc3\x28", b"no UTF-8");
    file(c"e\xcc\x81", b"two");
    fails(ENOENT, stat(c"\xc3\xa9"));
    assert_eq!(std::fs::read_dir(".").unwrap().count(), 5);
}

fn links_to_other_file_systems() {
    let elsewhere = super::copy::Elsewhere::find();
    file(c"f", b"");
    mkdir(c"d", 0o755).unwrap();
    let there = elsewhere.path("x");
    fails(EXDEV, link(c"f", &there));
    fails(EXDEV, rename(c"f", &there));
    fails(EXDEV, rename(c"d", &there));
    file(&there, b"");
    fails(EXDEV, rename(&there, c"f"));
    fails(EXDEV, link(&there, c"g"));
    fails(EXDEV, renameat2(c"f", &there, RENAME_EXCHANGE));
}

fn removal_moves_times() {
    mkdir(c"d", 0o755).unwrap();
    mkdir(c"d/e", 0o755).unwrap();
    file(c"d/f", b"");
    link(c"d/f", c"kept").unwrap();
    changes(&[(c"d", "mc"), (c"kept", "c")], || unlink(c"d/f").unwrap());
    changes(&[(c"d", "mc"), (c"kept", "")], || rmdir(c"d/e").unwrap());
}

fn linking_moves_times() {
    mkdir(c"d", 0o755).unwrap();
    file(c"f", b"");
    changes(&[(c"d", "mc"), (c"f", "c"), (c".", "")], || {
        link(c"f", c"d/g").unwrap()
    });
}

fn no_links_from_the_unprivileged_to_directories() {
    chmod(c".", 0o777).unwrap();
    mkdir(c"d", 0o777).unwrap();
    as_user(ALICE, ALICE, &[], || {
        fails(EPERM, link(c"d", c"e"));
        fails(EISDIR, unlink(c"d"));
    });
}
