//! Set-user-id and set-group-id bits: when they go, and when they stay.

use super::words::*;
use crate::process::without_capability;
use rustix::thread::CapabilitySet;
use std::ffi::CStr;

cases!("setid":
    setid_goes_on_write, setid_goes_on_truncation, setid_goes_on_change_of_owner,
    setid_stays_for_the_privileged, setid_goes_on_copies_and_allocation, setgid_without_execution_goes_for_others,
    setgid_without_execution_stays_for_members, setgid_is_for_members, setid_goes_without_the_capability,
    capabilities_go_with_any_change,
);

/// A file of ALICE's with both bits, which everybody may write.
fn setid_file(path: &CStr) {
    needs_root();
    file(path, &[1; 10_000]);
    chown(path, ALICE, ALICE).unwrap();
    chmod(path, 0o6777).unwrap();
}

/// What an unprivileged user does takes the bits away.
#[track_caller]
fn clears(way: &str, operation: impl FnOnce()) {
    setid_file(c"f");
    as_user(BOB, BOB, &[], operation);
    assert_eq!(mode(c"f"), 0o777, "{way}");
}

fn setid_goes_on_write() {
    let opened = || open(c"f", O_RDWR, 0).unwrap();
    clears("write", || put(opened().0, b"x"));
    clears("pwrite", || {
        assert_eq!(pwrite(opened().0, b"x", 20_000), Ok(1))
    });
    clears("writev", || {
        assert_eq!(writev(opened().0, &[b"x", b"y"]), Ok(2))
    });
    clears("append", || {
        put(open(c"f", O_WRONLY | O_APPEND, 0).unwrap().0, b"x")
    });
    // A descriptor of root's does not make its user privileged.
    setid_file(c"f");
    let f = opened();
    as_user(BOB, BOB, &[], || put(f.0, b"x"));
    assert_eq!(mode(c"f"), 0o777);
    setid_file(c"f");
    as_user(ALICE, ALICE, &[], || put(opened().0, b"x"));
    assert_eq!(mode(c"f"), 0o777, "the owner");
}

fn setid_goes_on_truncation() {
    clears("truncate", || truncate(c"f", 5).unwrap());
    clears("ftruncate", || {
        ftruncate(open(c"f", O_RDWR, 0).unwrap().0, 20_000).unwrap()
    });
    clears("O_TRUNC", || {
        drop(open(c"f", O_WRONLY | O_TRUNC, 0).unwrap())
    });
}

fn setid_goes_on_copies_and_allocation() {
    clears("fallocate", || {
        fallocate(open(c"f", O_RDWR, 0).unwrap().0, 0, 0, 20_000).unwrap()
    });
    file(c"from", b"data");
    clears("copy_file_range", || {
        let from = open(c"from", O_RDONLY, 0).unwrap();
        assert_eq!(
            copy_file_range(
                (from.0, None),
                (open(c"f", O_RDWR, 0).unwrap().0, None),
                4,
                0
            ),
            Ok(4)
        );
    });
    clears("sendfile", || {
        let from = open(c"from", O_RDONLY, 0).unwrap();
        assert_eq!(
            sendfile(open(c"f", O_RDWR, 0).unwrap().0, from.0, None, 4),
            Ok(4)
        );
    });
}

fn setid_goes_on_change_of_owner() {
    setid_file(c"f");
    as_user(ALICE, ALICE, &[TEAM], || {
        chown(c"f", u32::MAX, TEAM).unwrap()
    });
    assert_eq!(mode(c"f"), 0o777);
    // Also when nothing is changed, and by root.
    for (user, group) in [(u32::MAX, u32::MAX), (ALICE, u32::MAX), (BOB, BOB)] {
        setid_file(c"f");
        chown(c"f", user, group).unwrap();
        assert_eq!(mode(c"f"), 0o777);
    }
    mkdir(c"d", 0o755).unwrap();
    chmod(c"d", 0o6755).unwrap();
    chown(c"d", ALICE, TEAM).unwrap();
    assert_eq!(mode(c"d"), 0o6755);
}

fn setid_stays_for_the_privileged() {
    setid_file(c"f");
    let f = open(c"f", O_RDWR, 0).unwrap();
    put(f.0, b"x");
    assert_eq!(pread(f.0, &mut [0; 1], 0), Ok(1));
    ftruncate(f.0, 5).unwrap();
    utimensat(AT_FDCWD, c"f", None, 0).unwrap();
    set_xattr(c"f", c"user.a", b"1", 0).unwrap();
    link(c"f", c"g").unwrap();
    rename(c"g", c"h").unwrap();
    assert_eq!(mode(c"h"), 0o6777);
    as_user(BOB, BOB, &[], || {
        assert_eq!(
            pread(open(c"h", O_RDONLY, 0).unwrap().0, &mut [0; 1], 0),
            Ok(1)
        );
    });
    assert_eq!(mode(c"h"), 0o6777);
}

/// Each way to change the content of a file named `f`.
fn content_changes() -> Vec<(&'static str, fn())> {
    fn opened(flags: c_int) -> Fd {
        open(c"f", flags, 0).unwrap()
    }
    fn allocated(mode: c_int) {
        fallocate(opened(O_RDWR).0, mode, 0, 4096).unwrap();
    }
    fn copied(copy: fn(i32, i32) -> Answer) {
        assert_eq!(
            copy(opened(O_WRONLY).0, open(c"from", O_RDONLY, 0).unwrap().0),
            Ok(4)
        );
    }
    vec![
        ("write", || put(opened(O_WRONLY).0, b"x")),
        ("append", || put(opened(O_WRONLY | O_APPEND).0, b"x")),
        ("pwrite", || {
            assert_eq!(pwrite(opened(O_RDWR).0, b"x", 20_000), Ok(1))
        }),
        ("pwrite of a block", || {
            assert_eq!(pwrite(opened(O_RDWR).0, &[1; 4096], 0), Ok(4096))
        }),
        ("truncate", || truncate(c"f", 5).unwrap()),
        ("ftruncate", || ftruncate(opened(O_RDWR).0, 20_000).unwrap()),
        ("O_TRUNC", || drop(opened(O_WRONLY | O_TRUNC))),
        ("fallocate", || allocated(0)),
        ("punch", || {
            allocated(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
        }),
        ("copy_file_range", || {
            copied(|to, from| copy_file_range((from, None), (to, None), 4, 0))
        }),
        ("sendfile", || {
            copied(|to, from| sendfile(to, from, None, 4))
        }),
    ]
}

/// The mode after each change by a user.
#[track_caller]
fn mode_after_changes(before: mode_t, user: uid_t, groups: &[gid_t], after: mode_t) {
    needs_root();
    file(c"from", b"data");
    for (way, change) in content_changes() {
        setid_file(c"f");
        chmod(c"f", before).unwrap();
        as_user(user, user, groups, change);
        assert_eq!(mode(c"f"), after, "{way}");
    }
}

fn setgid_without_execution_goes_for_others() {
    mode_after_changes(0o2666, BOB, &[], 0o666);
    mode_after_changes(0o6666, BOB, &[TEAM], 0o666);
}

fn setgid_without_execution_stays_for_members() {
    mode_after_changes(0o2666, BOB, &[ALICE], 0o2666);
    mode_after_changes(0o6666, ALICE, &[], 0o2666);
}

/// The right is the capability, not the user id 0.
fn setid_goes_without_the_capability() {
    needs_root();
    file(c"from", b"data");
    for (way, change) in content_changes() {
        setid_file(c"f");
        without_capability(CapabilitySet::FSETID, change);
        assert_eq!(mode(c"f"), 0o777, "{way}");
    }
}

/// Also by root, which may give them again.
fn capabilities_go_with_any_change() {
    needs_root();
    file(c"from", b"data");
    // A version 2 of the attribute: CAP_NET_RAW permitted, effective.
    let capability = [
        1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    for (way, change) in content_changes() {
        file(c"f", &[1; 10_000]);
        set_xattr(c"f", c"security.capability", &capability, 0).unwrap();
        change();
        let left = get_xattr(c"f", c"security.capability", 64);
        assert_eq!(left.map(drop), Err(Errno(ENODATA)), "{way}");
    }
}

fn setgid_is_for_members() {
    needs_root();
    file(c"f", b"");
    chown(c"f", ALICE, TEAM).unwrap();
    as_user(ALICE, ALICE, &[], || {
        chmod(c"f", 0o6755).unwrap();
        assert_eq!(mode(c"f"), 0o4755);
    });
    as_user(ALICE, ALICE, &[TEAM], || {
        chmod(c"f", 0o2755).unwrap();
        assert_eq!(mode(c"f"), 0o2755);
    });
}
