//! `utimensat`, and which times move with which call.

use super::words::*;

cases!("times":
    times_are_set, each_time_alone_is_set_or_kept, time_refusals, times_of_links, times_far_away,
    times_move_with_modes_and_owners, reading_leaves_content_times, reading_moves_access_times,
    writing_moves_times, times_of_a_new_file, now_is_for_writers,
    each_change_after_a_look_has_a_later_time,
);

pub(super) fn time(seconds: i64, nanoseconds: i64) -> timespec {
    timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    }
}

fn set_times(access: timespec, content: timespec) {
    utimensat(AT_FDCWD, c"f", Some([access, content]), 0).unwrap();
}

fn found_times() -> [i64; 3] {
    times(&stat(c"f").unwrap())
}

const SECOND: i64 = 1_000_000_000;

fn times_are_set() {
    let f = make(c"f");
    set_times(time(1_000, 5), time(2_000, 999_999_999));
    assert_eq!(found_times()[..2], [1_000 * SECOND + 5, 2_001 * SECOND - 1]);
    futimens(f.0, [time(7, 0), time(8, 0)]).unwrap();
    assert_eq!(found_times()[..2], [7 * SECOND, 8 * SECOND]);
    mkdir(c"d", 0o755).unwrap();
    utimensat(AT_FDCWD, c"d", Some([time(1, 0), time(2, 0)]), 0).unwrap();
    assert_eq!(times(&stat(c"d").unwrap())[..2], [SECOND, 2 * SECOND]);
    let now_ns = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as i64;
    utimensat(AT_FDCWD, c"f", None, 0).unwrap();
    for set_ns in found_times() {
        assert!((set_ns - now_ns).abs() < 60 * SECOND);
    }
}

fn each_time_alone_is_set_or_kept() {
    file(c"f", b"");
    let (omit, now) = (time(0, UTIME_OMIT), time(0, UTIME_NOW));
    let (old_access, old_content) = (1_000 * SECOND + 1, 2_000 * SECOND + 2);
    let start = || set_times(time(1_000, 1), time(2_000, 2));
    let moved = |access, content| {
        start();
        let before = found_times();
        tick();
        set_times(access, content);
        let after = found_times();
        (after[0], after[1], after[2] > before[2])
    };
    assert_eq!(moved(omit, time(5, 5)), (old_access, 5 * SECOND + 5, true));
    assert_eq!(moved(time(5, 5), omit), (5 * SECOND + 5, old_content, true));
    assert_eq!(moved(omit, omit), (old_access, old_content, false));
    let (access, content, changed) = moved(now, omit);
    assert!(access > 1_000_000 * SECOND && content == old_content && changed);
    let (access, content, changed) = moved(omit, now);
    assert!(content > 1_000_000 * SECOND && access == old_access && changed);
    let (access, content, changed) = moved(now, time(3, 0));
    assert!(access > 1_000_000 * SECOND && content == 3 * SECOND && changed);
    let (access, content, _) = moved(now, now);
    assert!(access > 1_000_000 * SECOND && access == content);
}

fn time_refusals() {
    file(c"f", b"");
    for wrong in [time(0, 1_000_000_000), time(0, -1), time(0, i64::MAX)] {
        fails(
            EINVAL,
            utimensat(AT_FDCWD, c"f", Some([wrong, time(0, 0)]), 0),
        );
        fails(
            EINVAL,
            utimensat(AT_FDCWD, c"f", Some([time(0, 0), wrong]), 0),
        );
    }
    fails(ENOENT, utimensat(AT_FDCWD, c"none", None, 0));
    fails(ENOTDIR, utimensat(AT_FDCWD, c"f/x", None, 0));
    fails(EBADF, utimensat(-1, c"f", None, 0));
    fails(EINVAL, utimensat(AT_FDCWD, c"f", None, 1 << 30));
    fails(EBADF, futimens(-1, [time(0, 0); 2]));
}

fn times_of_links() {
    file(c"f", b"");
    symlink(c"f", c"l").unwrap();
    set_times(time(9, 0), time(9, 0));
    utimensat(
        AT_FDCWD,
        c"l",
        Some([time(1, 0), time(2, 0)]),
        AT_SYMLINK_NOFOLLOW,
    )
    .unwrap();
    assert_eq!(times(&lstat(c"l").unwrap())[..2], [SECOND, 2 * SECOND]);
    assert_eq!(found_times()[..2], [9 * SECOND, 9 * SECOND]);
    utimensat(AT_FDCWD, c"l", Some([time(3, 0), time(4, 0)]), 0).unwrap();
    assert_eq!(found_times()[..2], [3 * SECOND, 4 * SECOND]);
}

fn times_far_away() {
    file(c"f", b"");
    for seconds in [
        0,
        -1,
        -1_000_000_000,
        (1 << 31) - 1,
        1 << 31,
        1 << 32,
        5_000_000_000,
    ] {
        for nanoseconds in [0, 1, 999_999_999] {
            set_times(time(seconds, nanoseconds), time(-seconds, nanoseconds));
            let facts = stat(c"f").unwrap();
            assert_eq!(
                (facts.st_atime, facts.st_atime_nsec),
                (seconds, nanoseconds)
            );
            assert_eq!(
                (facts.st_mtime, facts.st_mtime_nsec),
                (-seconds, nanoseconds)
            );
        }
    }
}

fn times_move_with_modes_and_owners() {
    let f = make(c"f");
    let attributes: &[_] = &[(c"f", "c")];
    changes(attributes, || chmod(c"f", 0o600).unwrap());
    changes(attributes, || fchmod(f.0, 0o600).unwrap());
    changes(attributes, || chown(c"f", u32::MAX, u32::MAX).unwrap());
    changes(&[(c"f", "c"), (c".", "")], || {
        set_xattr(c"f", c"user.a", b"1", 0).unwrap()
    });
    changes(&[(c"f", "")], || {
        get_xattr(c"f", c"user.a", 10).unwrap();
        list_xattr(c"f", 100).unwrap();
        access(c"f", R_OK).unwrap();
        fails(EEXIST, set_xattr(c"f", c"user.a", b"1", XATTR_CREATE));
        fails(ENODATA, remove_xattr(c"f", c"user.b"));
        fails(EINVAL, ftruncate(f.0, -1));
    });
    changes(attributes, || remove_xattr(c"f", c"user.a").unwrap());
}

fn reading_leaves_content_times() {
    let f = make(c"f");
    put(f.0, b"data");
    mkdir(c"d", 0o755).unwrap();
    symlink(c"f", c"l").unwrap();
    changes(&[(c"f", ""), (c"d", ""), (c"l", "")], || {
        assert_eq!(pread(f.0, &mut [0; 4], 0), Ok(4));
        std::fs::read_dir("d").unwrap().count();
        readlink(c"l", 10).unwrap();
        stat(c"l").unwrap();
        lseek(f.0, 1 << 40, SEEK_SET).unwrap();
        fails(EISDIR, open(c"d", O_RDWR, 0));
        drop(open(c"f", O_RDWR, 0).unwrap());
    });
}

/// At the first read after a change, as with `relatime`; not with `O_NOATIME`.
fn reading_moves_access_times() {
    let f = make(c"f");
    put(f.0, b"data");
    let quiet = open(c"f", O_RDONLY | O_NOATIME, 0).unwrap();
    let before = found_times()[0];
    tick();
    assert_eq!(pread(quiet.0, &mut [0; 4], 0), Ok(4));
    assert_eq!(found_times()[0], before);
    assert_eq!(pread(f.0, &mut [0; 4], 0), Ok(4));
    assert!(found_times()[0] > before);
}

fn writing_moves_times() {
    let f = make(c"f");
    type Write<'a> = (&'a str, &'a dyn Fn());
    let append = open(c"f", O_WRONLY | O_APPEND, 0).unwrap();
    let ways: [Write; 6] = [
        ("write", &|| put(f.0, b"data")),
        ("pwrite", &|| assert_eq!(pwrite(f.0, b"x", 0), Ok(1))),
        ("pwrite far out", &|| {
            assert_eq!(pwrite(f.0, b"x", 100_000), Ok(1))
        }),
        ("append", &|| put(append.0, b"more")),
        ("writev", &|| assert_eq!(writev(f.0, &[b"a", b"b"]), Ok(2))),
        ("overwrite", &|| {
            assert_eq!(pwrite(f.0, &[7; 4_096], 4_096), Ok(4_096))
        }),
    ];
    for (_, way) in ways {
        changes(&[(c"f", "mc"), (c".", "")], way);
    }
}

fn times_of_a_new_file() {
    let before_ns = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as i64;
    for made in [
        &|| file(c"x", b"") as (),
        &|| mkdir(c"x", 0o755).unwrap(),
        &|| symlink(c"t", c"x").unwrap(),
        &|| mknod(c"x", S_IFIFO | 0o644, 0).unwrap(),
    ] as [&dyn Fn(); 4]
    {
        made();
        let all = times(&lstat(c"x").unwrap());
        assert!(all.iter().all(|ns| *ns == all[0]), "{all:?}");
        // The clock of files may be a tick behind.
        assert!(all[0] > before_ns - SECOND && all[0] < before_ns + 60 * SECOND);
        let _ = unlink(c"x").or_else(|_| rmdir(c"x"));
    }
}

fn now_is_for_writers() {
    file(c"f", b"");
    chmod(c"f", 0o666).unwrap();
    file(c"g", b"");
    as_user(ALICE, ALICE, &[], || {
        let now = [time(0, UTIME_NOW); 2];
        utimensat(AT_FDCWD, c"f", None, 0).unwrap();
        utimensat(AT_FDCWD, c"f", Some(now), 0).unwrap();
        fails(EACCES, utimensat(AT_FDCWD, c"g", None, 0));
        fails(EACCES, utimensat(AT_FDCWD, c"g", Some(now), 0));
        fails(EPERM, utimensat(AT_FDCWD, c"g", Some([time(1, 0); 2]), 0));
    });
}

/// Changes one after the other, with a look at the times between them.
#[track_caller]
fn later_after_each_look(path: &std::ffi::CStr, which: usize, change: impl Fn(usize)) {
    let mut last = times(&stat(path).unwrap())[which];
    for round in 0..100 {
        change(round);
        let now = times(&stat(path).unwrap())[which];
        assert!(now > last, "{path:?}, round {round}: {now} after {last}");
        last = now;
    }
}

fn each_change_after_a_look_has_a_later_time() {
    const CONTENT: usize = 1;
    const ATTRIBUTES: usize = 2;
    if !crate::process::is_kernel_since(6, 13) {
        skip("older kernels stamp with their tick alone");
    }
    let f = make(c"f");
    let data = vec![7; 8192];
    later_after_each_look(c"f", CONTENT, |round| {
        assert_eq!(
            pwrite(f.0, &data[..4096], 4096 * (round as i64 % 4)),
            Ok(4096)
        );
    });
    later_after_each_look(c"f", CONTENT, |round| {
        assert_eq!(pwrite(f.0, &data[..100 + round], 50), Ok(100 + round));
    });
    later_after_each_look(c"f", CONTENT, |round| {
        ftruncate(f.0, 20_000 + round as i64).unwrap();
    });
    later_after_each_look(c"f", ATTRIBUTES, |round| {
        fchmod(f.0, 0o600 + round as u32 % 2).unwrap();
    });
    later_after_each_look(c"f", ATTRIBUTES, |round| {
        fset_xattr(f.0, c"user.round", &[round as u8]).unwrap();
    });
    mkdir(c"d", 0o755).unwrap();
    later_after_each_look(c"d", CONTENT, |round| match round % 2 {
        0 => drop(make(c"d/new")),
        _ => unlink(c"d/new").unwrap(),
    });
    later_after_each_look(c"f", ATTRIBUTES, |round| match round % 2 {
        0 => link(c"f", c"g").unwrap(),
        _ => unlink(c"g").unwrap(),
    });
    // The look follows the creation at once: its times come with the answer to the creation.
    for round in 0..100 {
        let f = make(c"new");
        let made = times(&fstat(f.0).unwrap())[CONTENT];
        assert_eq!(pwrite(f.0, b"x", 0), Ok(1));
        let written = times(&fstat(f.0).unwrap())[CONTENT];
        assert!(written > made, "round {round}: {written} after {made}");
        unlink(c"new").unwrap();
    }
    let names = [c"d/one", c"d/two"];
    drop(make(names[0]));
    later_after_each_look(c"d", CONTENT, |round| {
        rename(names[round % 2], names[(round + 1) % 2]).unwrap();
    });
}
