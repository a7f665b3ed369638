//! The cases, one file per family of calls.

use crate::case::Case;

/// Cases of a family, named after their functions; the family after its file.
macro_rules! cases {
    ($family:literal: $($name:ident),+ $(,)?) => {
        /// The cases of this family.
        pub const CASES: &[crate::case::Case] = &[
            $(crate::case::Case { family: $family, name: stringify!($name), run: $name }),+
        ];
    };
}

/// What cases speak of. Named one by one, the calls of this crate come before those of libc.
mod words {
    pub use crate::call::{
        Answer, Errno, Fd, Stream, access, chdir, chmod, chown, close, copy_file_range, creat, dup,
        dup2, dup3, errno, faccessat, fallocate, fchmod, fchmodat, fchown, fcntl, fcntl_lock,
        fget_xattr_bytes, flist_xattr_bytes, flock, fremove_xattr, fset_xattr, fstat, fstatat,
        fstatfs, ftruncate, futimens, get_xattr, lchown, link, linkat, list_xattr, lseek, lstat,
        mkdir, mkdirat, mknod, open, openat, pipe, pread, preadv, preadv2, pwrite, pwritev,
        pwritev2, read, readlink, readv, realpath, realpath_into, remove_xattr, rename, renameat2,
        rmdir, sendfile, set_file_user, set_xattr, set_xattr_of_target, splice, stat, statfs,
        statx, symlink, transfer_raw, transfer_raw_at, truncate, unlink, unlinkat, utimensat,
        vector_raw, with_fd, write, writev, xattr_bytes_of_target,
    };
    pub use crate::check::{
        assert_same, changes, content, content_of, fails, file, holds, make, mode, name, pattern,
        put, tick, times,
    };
    pub use crate::process::{ALICE, BOB, Child, TEAM, apart, as_user, needs_root, skip};
    pub use libc::*;
}

mod attributes;
mod bricks;
mod control;
mod copy;
mod descriptors;
mod directory;
mod directory_changes;
mod directory_streams;
mod handles;
mod limits;
mod locks;
mod making;
mod map;
mod map_beside_write;
mod map_stores;
mod names;
mod open;
mod permissions;
mod programs;
mod read_only;
mod rename;
mod setid;
mod size;
mod times;
mod transfer;
mod xattr;

/// Every family.
pub const FAMILIES: &[&[Case]] = &[
    open::CASES,
    limits::CASES,
    transfer::CASES,
    size::CASES,
    copy::CASES,
    names::CASES,
    making::CASES,
    rename::CASES,
    directory::CASES,
    directory_changes::CASES,
    directory_streams::CASES,
    attributes::CASES,
    times::CASES,
    xattr::CASES,
    permissions::CASES,
    setid::CASES,
    locks::CASES,
    map::CASES,
    map_beside_write::CASES,
    map_stores::CASES,
    descriptors::CASES,
    control::CASES,
    handles::CASES,
    bricks::CASES,
    programs::CASES,
    read_only::CASES,
];
