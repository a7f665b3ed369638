//! `stat`, `statx`, `chmod`, `chown`, `utimensat`, `access`, `statfs`.

use super::words::*;
use crate::call;

cases!("attributes":
    every_stat_agrees, statx_tells_what_it_knows, stat_refusals, modes_change, mode_refusals, owners_change,
    owner_refusals, access_answers_for_the_real_user, access_refusals, space_is_told, sizes_and_blocks,
    numbers_differ_and_stay, chdir_needs_rights_and_directories, no_rights_over_files_of_others,
    empty_paths_name_the_descriptor, statx_without_wishes_is_fresh,
);

fn every_stat_agrees() {
    let f = make(c"f");
    put(f.0, &[1; 5_000]);
    fchmod(f.0, 0o640).unwrap();
    let facts = stat(c"f").unwrap();
    let key = |facts: &stat| {
        (
            facts.st_ino,
            facts.st_dev,
            facts.st_mode,
            facts.st_nlink,
            facts.st_size,
            times(facts),
        )
    };
    assert_eq!(
        (facts.st_mode, facts.st_nlink, facts.st_size),
        (S_IFREG | 0o640, 1, 5_000)
    );
    for other in [
        lstat(c"f"),
        fstat(f.0),
        fstatat(AT_FDCWD, c"f", 0),
        fstatat(f.0, c"", AT_EMPTY_PATH),
    ] {
        assert_eq!(key(&other.unwrap()), key(&facts));
    }
    symlink(c"f", c"l").unwrap();
    assert_eq!(key(&stat(c"l").unwrap()), key(&facts));
    assert_eq!(lstat(c"l").unwrap().st_mode, S_IFLNK | 0o777);
    assert_eq!(
        fstatat(AT_FDCWD, c"l", AT_SYMLINK_NOFOLLOW)
            .unwrap()
            .st_size,
        1
    );
    assert_eq!(stat(c".").unwrap().st_dev, facts.st_dev);
}

fn statx_tells_what_it_knows() {
    let f = make(c"f");
    put(f.0, &[1; 5_000]);
    let (facts, more) = (
        fstat(f.0).unwrap(),
        statx(f.0, c"", AT_EMPTY_PATH, STATX_BASIC_STATS).unwrap(),
    );
    assert_eq!(more.stx_mask & STATX_BASIC_STATS, STATX_BASIC_STATS);
    assert_eq!(
        (more.stx_ino, more.stx_size as i64),
        (facts.st_ino, facts.st_size)
    );
    assert_eq!(
        (more.stx_mtime.tv_sec, i64::from(more.stx_mtime.tv_nsec)),
        (facts.st_mtime, facts.st_mtime_nsec)
    );
    assert_eq!(
        (more.stx_uid, more.stx_gid, u32::from(more.stx_mode)),
        (facts.st_uid, facts.st_gid, facts.st_mode)
    );
    put(f.0, &[1; 10]);
    for sync in [AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC] {
        assert_eq!(
            statx(AT_FDCWD, c"f", sync, STATX_SIZE).unwrap().stx_size,
            5_010
        );
    }
    fails(
        EINVAL,
        statx(
            AT_FDCWD,
            c"f",
            AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC,
            STATX_SIZE,
        ),
    );
    fails(EINVAL, statx(AT_FDCWD, c"f", 0, 1 << 31));
}

/// Neither who asks for nothing nor who wants no synchronisation gets sizes of the past.
fn statx_without_wishes_is_fresh() {
    let f = make(c"f");
    let mut size = 0;
    for (flags, mask) in [
        (0, 0),
        (AT_STATX_DONT_SYNC, STATX_SIZE),
        (AT_STATX_DONT_SYNC, 0),
        (AT_STATX_DONT_SYNC, STATX_BASIC_STATS),
    ] {
        for count in 0..3 {
            put(f.0, &[1; 1_000]);
            size += 1_000;
            let facts = match count {
                0 => statx(AT_FDCWD, c"f", flags, mask),
                _ => statx(f.0, c"", flags | AT_EMPTY_PATH, mask),
            };
            let found = facts.unwrap().stx_size;
            assert_eq!(found, size, "size with flags {flags:#x}, mask {mask:#x}");
        }
    }
}

fn stat_refusals() {
    file(c"f", b"");
    for answer in [
        stat(c"none"),
        lstat(c"none"),
        stat(c""),
        stat(c"none/f"),
        fstatat(AT_FDCWD, c"", 0),
    ] {
        fails(ENOENT, answer.map(drop));
    }
    fails(ENOTDIR, stat(c"f/x").map(drop));
    fails(ENOTDIR, lstat(c"f/").map(drop));
    fails(EBADF, fstatat(-1, c"f", 0).map(drop));
    fails(EINVAL, fstatat(AT_FDCWD, c"f", 1 << 30).map(drop));
    fails(ENOENT, statx(AT_FDCWD, c"none", 0, STATX_SIZE).map(drop));
}

fn modes_change() {
    let f = make(c"f");
    mkdir(c"d", 0o755).unwrap();
    for bits in [0, 0o777, 0o644, 0o7777, 0o4711, 0o2755, 0o1000] {
        chmod(c"f", bits).unwrap();
        assert_eq!(mode(c"f"), bits);
        fchmod(f.0, bits ^ 0o111).unwrap();
        assert_eq!(fstat(f.0).unwrap().st_mode, S_IFREG | (bits ^ 0o111));
        fchmodat(AT_FDCWD, c"d", bits, 0).unwrap();
        assert_eq!(stat(c"d").unwrap().st_mode, S_IFDIR | bits);
    }
    symlink(c"f", c"l").unwrap();
    chmod(c"l", 0o600).unwrap();
    assert_eq!((mode(c"f"), mode(c"l")), (0o600, 0o777));
}

fn mode_refusals() {
    file(c"f", b"");
    symlink(c"none", c"l").unwrap();
    fails(ENOENT, chmod(c"none", 0o600));
    fails(ENOENT, chmod(c"l", 0o600));
    fails(ENOENT, chmod(c"", 0o600));
    fails(ENOTDIR, chmod(c"f/x", 0o600));
    fails(EBADF, fchmodat(-1, c"f", 0o600, 0));
    fails(
        EOPNOTSUPP,
        fchmodat(AT_FDCWD, c"l", 0o600, AT_SYMLINK_NOFOLLOW),
    );
}

fn owners_change() {
    needs_root();
    let f = make(c"f");
    let owner = |facts: stat| (facts.st_uid, facts.st_gid);
    chown(c"f", ALICE, BOB).unwrap();
    assert_eq!(owner(stat(c"f").unwrap()), (ALICE, BOB));
    chown(c"f", u32::MAX, TEAM).unwrap();
    assert_eq!(owner(stat(c"f").unwrap()), (ALICE, TEAM));
    fchown(f.0, BOB, u32::MAX).unwrap();
    assert_eq!(owner(fstat(f.0).unwrap()), (BOB, TEAM));
    symlink(c"f", c"l").unwrap();
    lchown(c"l", ALICE, ALICE).unwrap();
    assert_eq!(owner(lstat(c"l").unwrap()), (ALICE, ALICE));
    assert_eq!(owner(stat(c"f").unwrap()), (BOB, TEAM));
    chown(c"l", 5, 6).unwrap();
    assert_eq!(owner(stat(c"f").unwrap()), (5, 6));
    chown(c"f", u32::MAX - 1, u32::MAX - 1).unwrap();
    assert_eq!(owner(stat(c"f").unwrap()), (u32::MAX - 1, u32::MAX - 1));
}

fn owner_refusals() {
    file(c"f", b"");
    symlink(c"none", c"l").unwrap();
    let own = u32::MAX;
    fails(ENOENT, chown(c"none", own, own));
    fails(ENOENT, chown(c"l", own, own));
    fails(ENOENT, lchown(c"none", own, own));
    fails(ENOTDIR, chown(c"f/x", own, own));
    lchown(c"l", own, own).unwrap();
}

fn access_answers_for_the_real_user() {
    file(c"f", b"");
    mkdir(c"d", 0o755).unwrap();
    access(c"f", F_OK | R_OK | W_OK).unwrap();
    needs_root();
    // Whoever may all may execute what somebody may.
    fails(EACCES, access(c"f", X_OK));
    access(c"d", R_OK | W_OK | X_OK).unwrap();
    chmod(c"f", 0o001).unwrap();
    access(c"f", R_OK | W_OK | X_OK).unwrap();
    chmod(c"f", 0o640).unwrap();
    chown(c"f", ALICE, TEAM).unwrap();
    as_user(BOB, BOB, &[TEAM], || {
        access(c"f", R_OK).unwrap();
        fails(EACCES, access(c"f", W_OK));
        fails(EACCES, access(c"f", R_OK | X_OK));
        fails(EACCES, faccessat(AT_FDCWD, c"f", W_OK, AT_EACCESS));
    });
    apart(|| {
        // The real user alone changes.
        call::setresuid(BOB, u32::MAX, u32::MAX).unwrap();
        fails(EACCES, access(c"f", R_OK));
        faccessat(AT_FDCWD, c"f", R_OK, AT_EACCESS).unwrap();
    });
}

fn access_refusals() {
    file(c"f", b"");
    symlink(c"none", c"l").unwrap();
    fails(ENOENT, access(c"none", F_OK));
    fails(ENOENT, access(c"l", F_OK));
    fails(ENOTDIR, access(c"f/x", F_OK));
    fails(EINVAL, access(c"f", 8));
    fails(EBADF, faccessat(-1, c"f", F_OK, 0));
}

fn space_is_told() {
    let f = make(c"f");
    let (one, other) = (statfs(c".").unwrap(), fstatfs(f.0).unwrap());
    assert_eq!(
        (one.f_type, one.f_bsize, one.f_blocks),
        (other.f_type, other.f_bsize, other.f_blocks)
    );
    assert!(
        one.f_bsize > 0
            && one.f_blocks > 0
            && one.f_bfree <= one.f_blocks
            && one.f_bavail <= one.f_bfree
    );
    assert_eq!(one.f_namelen, 255);
    // Others may use the file system meanwhile.
    let mut all_taken = Vec::new();
    let is_told = (0..20).any(|_| {
        ftruncate(f.0, 0).unwrap();
        let before = statfs(c".").unwrap();
        assert_eq!(pwrite(f.0, &vec![1; 4 << 20], 0), Ok(4 << 20));
        let after = statfs(c".").unwrap();
        let taken = (before.f_bfree as i64 - after.f_bfree as i64) * one.f_bsize;
        all_taken.push(taken);
        (4 << 20..8 << 20).contains(&taken)
    });
    assert!(is_told, "{all_taken:?}");
    fails(ENOENT, statfs(c"none"));
    fails(ENOTDIR, statfs(c"f/x"));
}

fn sizes_and_blocks() {
    let f = make(c"f");
    let taken = || fstat(f.0).unwrap().st_blocks * 512;
    assert_eq!(taken(), 0);
    put(f.0, &[1; 100_000]);
    assert!((100_000..200_000).contains(&taken()), "{}", taken());
    pwrite(f.0, b"x", 1 << 30).unwrap();
    assert!(taken() < 300_000);
    ftruncate(f.0, 0).unwrap();
    assert_eq!(taken(), 0);
    assert!(fstat(f.0).unwrap().st_blksize >= 512);
}

fn numbers_differ_and_stay() {
    let names: Vec<_> = (0..100).map(|at| name(format!("f{at}"))).collect();
    let numbers: Vec<u64> = names
        .iter()
        .map(|path| {
            file(path, b"");
            stat(path).unwrap().st_ino
        })
        .collect();
    let different: std::collections::BTreeSet<_> = numbers.iter().collect();
    assert_eq!(different.len(), 100);
    assert!(
        names
            .iter()
            .zip(&numbers)
            .all(|(path, number)| lstat(path).unwrap().st_ino == *number)
    );
}

fn chdir_needs_rights_and_directories() {
    file(c"f", b"");
    mkdir(c"closed", 0o700).unwrap();
    mkdir(c"listable", 0o744).unwrap();
    fails(ENOENT, chdir(c"none"));
    fails(ENOTDIR, chdir(c"f"));
    let f = open(c"f", O_RDONLY, 0).unwrap();
    fails(ENOTDIR, with_fd(fchdir, f.0));
    as_user(ALICE, ALICE, &[], || {
        fails(EACCES, chdir(c"closed"));
        fails(EACCES, chdir(c"listable"));
        assert_eq!(std::fs::read_dir("listable").unwrap().count(), 0);
    });
}

fn no_rights_over_files_of_others() {
    file(c"f", b"");
    chmod(c"f", 0o666).unwrap();
    as_user(ALICE, ALICE, &[TEAM], || {
        fails(EPERM, chmod(c"f", 0o777));
        fails(EPERM, chown(c"f", ALICE, u32::MAX));
        fails(EPERM, chown(c"f", u32::MAX, ALICE));
        fails(
            EPERM,
            utimensat(AT_FDCWD, c"f", Some([super::times::time(1, 0); 2]), 0),
        );
        fails(
            EPERM,
            utimensat(
                AT_FDCWD,
                c"f",
                Some([
                    super::times::time(0, UTIME_OMIT),
                    super::times::time(0, UTIME_NOW),
                ]),
                0,
            ),
        );
    });
    chown(c"f", ALICE, ALICE).unwrap();
    as_user(ALICE, ALICE, &[TEAM], || {
        chown(c"f", u32::MAX, TEAM).unwrap();
        fails(EPERM, chown(c"f", u32::MAX, BOB));
        fails(EPERM, chown(c"f", BOB, u32::MAX));
        chown(c"f", ALICE, ALICE).unwrap();
        chmod(c"f", 0o600).unwrap();
    });
}

fn empty_paths_name_the_descriptor() {
    let f = make(c"f");
    put(f.0, b"12345");
    assert_eq!(fstatat(f.0, c"", AT_EMPTY_PATH).unwrap().st_size, 5);
    needs_root();
    linkat((f.0, c""), (AT_FDCWD, c"g"), AT_EMPTY_PATH).unwrap();
    holds(c"g", b"12345");
}
