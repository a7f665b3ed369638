//! Extended attributes.

use crate::common::*;
use egeria_harness::testing::skip;
use rustix::fs::{llistxattr, llistxattr_query, lremovexattr};
use std::fs::{self, File};
use std::path::Path;

fn list(path: &Path, room: usize) -> Result<(usize, Vec<u8>), i32> {
    let mut names = vec![0u8; room];
    let got = match room {
        0 => sys(llistxattr_query(path))?,
        _ => sys(llistxattr(path, &mut names[..]))?,
    };
    names.truncate(got);
    Ok((got, names))
}

fn remove(path: &Path, name: &str) -> Result<(), i32> {
    sys(lremovexattr(path, name))
}

#[test]
fn attributes_are_set_read_listed_and_removed() {
    let Some(mount) = Mounted::new() else { return };
    File::create(mount.path("file")).unwrap();
    fs::create_dir(mount.path("directory")).unwrap();
    for name in ["file", "directory"] {
        let path = mount.path(name);
        assert_eq!(get_xattr(&path, "user.one", 10), Err(libc::ENODATA));
        set_xattr(&path, "user.one", b"value", 0).unwrap();
        set_xattr(&path, "user.empty", b"", 0).unwrap();
        set_xattr(&path, "trusted.three", b"\0\xff", 0).unwrap();
        assert_eq!(get_xattr(&path, "user.one", 10), Ok((5, b"value".to_vec())));
        assert_eq!(get_xattr(&path, "user.empty", 10), Ok((0, Vec::new())));
        assert_eq!(
            get_xattr(&path, "trusted.three", 10),
            Ok((2, b"\0\xff".to_vec()))
        );
        let (_, names) = list(&path, 1000).unwrap();
        let mut names: Vec<_> = names
            .split(|byte| *byte == 0)
            .filter(|n| !n.is_empty())
            .collect();
        names.sort();
        assert_eq!(names, [&b"trusted.three"[..], b"user.empty", b"user.one"]);
        remove(&path, "user.one").unwrap();
        assert_eq!(remove(&path, "user.one"), Err(libc::ENODATA));
        assert_eq!(get_xattr(&path, "user.one", 10), Err(libc::ENODATA));
    }
}

#[test]
fn sizes_are_told_and_too_little_room_is_erange() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("file");
    File::create(&path).unwrap();
    set_xattr(&path, "user.a", b"0123456789", 0).unwrap();
    assert_eq!(
        get_xattr(&path, "user.a", 0),
        Ok((10, Vec::new())).map(|(n, _): (_, Vec<u8>)| (n, vec![]))
    );
    assert_eq!(get_xattr(&path, "user.a", 9), Err(libc::ERANGE));
    assert_eq!(get_xattr(&path, "user.a", 10).unwrap().0, 10);
    assert_eq!(list(&path, 0).unwrap().0, 7);
    assert_eq!(list(&path, 6), Err(libc::ERANGE));
    assert_eq!(list(&path, 7), Ok((7, b"user.a\0".to_vec())));
}

#[test]
fn create_and_replace_mean_what_they_say() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("file");
    File::create(&path).unwrap();
    assert_eq!(
        set_xattr(&path, "user.a", b"1", libc::XATTR_REPLACE),
        Err(libc::ENODATA)
    );
    set_xattr(&path, "user.a", b"1", libc::XATTR_CREATE).unwrap();
    assert_eq!(
        set_xattr(&path, "user.a", b"2", libc::XATTR_CREATE),
        Err(libc::EEXIST)
    );
    set_xattr(&path, "user.a", b"three", libc::XATTR_REPLACE).unwrap();
    assert_eq!(get_xattr(&path, "user.a", 10).unwrap().1, b"three");
}

/// Access control lists are not kept, since nobody would enforce them.
#[test]
fn system_attributes_are_refused() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("file");
    File::create(&path).unwrap();
    let refused = set_xattr(&path, "system.posix_acl_access", &[2, 0, 0, 0], 0);
    assert!(
        matches!(refused, Err(libc::EOPNOTSUPP | libc::EINVAL)),
        "{refused:?}"
    );
    assert_eq!(
        set_xattr(&path, "system.other", b"x", 0),
        Err(libc::EOPNOTSUPP)
    );
}

/// Programs that copy or show labels ask every file for them until one says that there are none.
#[test]
fn labels_that_no_module_uses_are_not_supported() {
    let Some(mount) = Mounted::new() else { return };
    if Path::new("/sys/fs/selinux/enforce").exists() {
        skip("SELinux labels files here");
        return;
    }
    let path = mount.path("file");
    File::create(&path).unwrap();
    let label = |name: &str| get_xattr(&path, name, 10);
    assert_eq!(label("security.selinux"), Err(libc::EOPNOTSUPP));
    assert_eq!(label("security.other"), Err(libc::ENODATA));
    set_xattr(&path, "security.selinux", b"kept", 0).unwrap();
    assert_eq!(label("security.selinux"), Ok((4, b"kept".to_vec())));
}

#[test]
fn attributes_of_others_are_theirs() {
    let Some(mount) = Mounted::new() else { return };
    let path = mount.path("file");
    File::create(&path).unwrap();
    as_user(NOBODY, NOBODY, || {
        assert_eq!(set_xattr(&path, "user.a", b"x", 0), Err(libc::EACCES));
        assert_eq!(set_xattr(&path, "trusted.a", b"x", 0), Err(libc::EPERM));
    });
}
