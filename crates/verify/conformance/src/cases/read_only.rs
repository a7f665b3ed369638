//! What a read-only mount refuses. Without one at hand, the directory is mounted once more, read-only,
//! where only the case sees it.

use super::words::*;
use crate::call;
use std::ffi::CString;

cases!("read_only":
    every_change_is_erofs, reading_goes_on,
);

/// Files and directories to be tried, then the directory seen read-only, as working directory.
fn prepare() {
    needs_root();
    mkdir(c"d", 0o755).unwrap();
    mkdir(c"d/e", 0o755).unwrap();
    file(c"d/f", b"data");
    set_xattr(c"d/f", c"user.a", b"1", 0).unwrap();
    mkdir(c"view", 0o755).unwrap();
    symlink(c"f", c"d/l").unwrap();
    let view = |flags: u64| {
        if call::mount_again(Some(c"d"), c"view", flags).is_err() {
            skip("needs to mount");
        }
    };
    if call::separate_mounts().is_err() {
        skip("needs a name space of mounts");
    }
    call::mount_again(None, c"/", MS_REC | MS_PRIVATE).unwrap();
    view(MS_BIND);
    view(MS_BIND | MS_REMOUNT | MS_RDONLY);
    chdir(c"view").unwrap();
}

fn every_change_is_erofs() {
    prepare();
    let long: CString = name("n".repeat(256));
    let answers: [(&str, Answer<()>); 26] = [
        ("open to write", open(c"f", O_WRONLY, 0).map(drop)),
        ("open to read and write", open(c"f", O_RDWR, 0).map(drop)),
        (
            "open and truncate",
            open(c"f", O_RDONLY | O_TRUNC, 0).map(drop),
        ),
        ("create", open(c"new", O_CREAT | O_RDWR, 0o644).map(drop)),
        ("creat", creat(c"new", 0o644).map(drop)),
        ("truncate", truncate(c"f", 0)),
        ("mkdir", mkdir(c"new", 0o755)),
        ("rmdir", rmdir(c"e")),
        ("mknod", mknod(c"new", S_IFIFO | 0o644, 0)),
        ("symlink", symlink(c"x", c"new")),
        ("link", link(c"f", c"new")),
        ("unlink", unlink(c"f")),
        ("rename", rename(c"f", c"new")),
        ("exchange", renameat2(c"f", c"e", RENAME_EXCHANGE)),
        ("chmod", chmod(c"f", 0o600)),
        ("chown", chown(c"f", 1, 1)),
        ("lchown", lchown(c"l", 1, 1)),
        ("utimensat", utimensat(AT_FDCWD, c"f", None, 0)),
        ("set xattr", set_xattr(c"f", c"user.a", b"2", 0)),
        ("new xattr", set_xattr(c"f", c"user.b", b"2", 0)),
        ("remove xattr", remove_xattr(c"f", c"user.a")),
        ("access", access(c"f", W_OK)),
        ("access to a directory", access(c"e", W_OK)),
        ("unlinkat", unlinkat(AT_FDCWD, c"f", 0)),
        ("rmdir by unlinkat", unlinkat(AT_FDCWD, c"e", AT_REMOVEDIR)),
        ("fchmodat", fchmodat(AT_FDCWD, c"f", 0o600, 0)),
    ];
    for (call, answer) in answers {
        assert_eq!(answer, Err(Errno(EROFS)), "{call}");
    }
    // What is wrong otherwise is found first.
    fails(ENOENT, truncate(c"none", 0));
    fails(ENAMETOOLONG, mkdir(&long, 0o755));
    fails(EEXIST, mkdir(c"e", 0o755));
    let reader = open(c"f", O_RDONLY, 0).unwrap();
    fails(EROFS, fchmod(reader.0, 0o600));
    fails(EROFS, fchown(reader.0, 1, 1));
}

fn reading_goes_on() {
    prepare();
    holds(c"f", b"data");
    holds(c"l", b"data");
    assert_eq!(std::fs::read_dir(".").unwrap().count(), 3);
    assert_eq!(get_xattr(c"f", c"user.a", 10).unwrap().1, b"1");
    access(c"f", R_OK).unwrap();
    // The other way to the same file is not read-only.
    file(c"../d/f", b"changed");
    holds(c"f", b"changed");
    let facts = call::statvfs(c"f").unwrap();
    assert_ne!(facts.f_flag & ST_RDONLY, 0);
}
