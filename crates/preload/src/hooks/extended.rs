//! Extended attributes that are read, and those that no volume keeps.

use crate::names::{Answer, CallerPlace, Way, on_open_descriptor, on_path, with_caller_string};
use crate::real;
use egeria_fs::rights::READ;
use egeria_fs::{Attributes, Errno, FileKind, PathStop};
use libc::{c_char, c_int, c_void, size_t, ssize_t};

type Outcome = Result<Answer, PathStop>;

/// Longer names are refused by the kernel.
const MAX_NAME_BYTES: usize = 255;

/// How a file is named.
#[derive(Clone, Copy)]
enum Of {
    Path(*const c_char),
    Link(*const c_char),
    Descriptor(c_int),
}

impl Of {
    fn serve(self, body: impl FnOnce(&Way<'_>, &Attributes) -> Outcome) -> Option<c_int> {
        match self {
            Of::Path(path) => on_path(libc::AT_FDCWD, path, |way| body(way, &way.find(true)?)),
            Of::Link(path) => on_path(libc::AT_FDCWD, path, |way| body(way, &way.find(false)?)),
            Of::Descriptor(fd) => on_open_descriptor(fd, |way| body(way, &way.inode()?)),
        }
    }
}

/// What the mount answers for all attributes of this name; `None`: it depends on the inode.
fn unkept(name: &[u8]) -> Option<c_int> {
    name.starts_with(b"system.").then_some(libc::EOPNOTSUPP)
}

fn filled(value: &[u8], into: *mut u8, room: size_t) -> Answer {
    match room {
        0 => Answer::Done(value.len() as isize),
        _ if value.len() > room => Answer::Fails(libc::ERANGE),
        _ => match CallerPlace(into).fill(value) {
            Answer::Done(_) => Answer::Done(value.len() as isize),
            bad => bad,
        },
    }
}

fn get(of: Of, name: *const c_char, into: *mut c_void, room: size_t) -> Option<ssize_t> {
    let read = |way: &Way<'_>, inode: &Attributes, name: &[u8]| {
        if name.len() > MAX_NAME_BYTES {
            return Err(PathStop::Elsewhere);
        }
        if let Some(errno) = unkept(name) {
            return Ok(Answer::Fails(errno));
        }
        let kinds = [FileKind::Regular, FileKind::Directory];
        let is_plain = name.starts_with(b"user.")
            && kinds.contains(&inode.kind())
            && way.identity.credentials.may(inode, READ);
        let is_label = name.starts_with(b"security.")
            && !way.identity.has_labels
            && name != b"security.capability";
        if !is_plain && !is_label {
            return Err(PathStop::Elsewhere);
        }
        let value = way.volume.get_xattr(inode.ino, name);
        if !way.volume.has_generation(inode.ino, inode.generation) {
            return Err(PathStop::Elsewhere);
        }
        match value {
            Ok(value) => Ok(filled(&value, into.cast(), room)),
            // As the mount: without SELinux nobody should ask every file.
            Err(Errno(libc::ENODATA)) if name == b"security.selinux" => {
                Ok(Answer::Fails(libc::EOPNOTSUPP))
            }
            Err(Errno(libc::ENODATA)) => Ok(Answer::Fails(libc::ENODATA)),
            Err(_) => Err(PathStop::Elsewhere),
        }
    };
    let answer = of.serve(|way, inode| {
        with_caller_string(name, |name| read(way, inode, name)).unwrap_or(Err(PathStop::Elsewhere))
    });
    answer.map(|bytes| bytes as ssize_t)
}

/// Of inodes without any; who may know of which others is the kernel's to say.
fn list(of: Of) -> Option<ssize_t> {
    let answer = of.serve(|way, inode| {
        let names = way.volume.list_xattr(inode.ino);
        let is_same = way.volume.has_generation(inode.ino, inode.generation);
        match names {
            Ok(names) if names.is_empty() && is_same => Ok(Answer::Done(0)),
            _ => Err(PathStop::Elsewhere),
        }
    });
    answer.map(|bytes| bytes as ssize_t)
}

/// Of access control lists, which tools try to set on all that they copy.
fn set(of: Of, name: *const c_char) -> Option<c_int> {
    of.serve(|way, _| {
        let is_list = with_caller_string(name, |name| name.starts_with(b"system.posix_acl_"));
        match is_list == Some(true) && way.usage.is_writable() {
            true => Ok(Answer::Fails(libc::EOPNOTSUPP)),
            false => Err(PathStop::Elsewhere),
        }
    })
}

fn setxattr(
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> c_int {
    set(Of::Path(path), name).unwrap_or_else(|| real::setxattr(path, name, value, bytes, flags))
}

fn lsetxattr(
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> c_int {
    set(Of::Link(path), name).unwrap_or_else(|| real::lsetxattr(path, name, value, bytes, flags))
}

fn fsetxattr(
    fd: c_int,
    name: *const c_char,
    value: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> c_int {
    set(Of::Descriptor(fd), name).unwrap_or_else(|| real::fsetxattr(fd, name, value, bytes, flags))
}

fn getxattr(path: *const c_char, name: *const c_char, into: *mut c_void, room: size_t) -> ssize_t {
    get(Of::Path(path), name, into, room).unwrap_or_else(|| real::getxattr(path, name, into, room))
}

fn lgetxattr(path: *const c_char, name: *const c_char, into: *mut c_void, room: size_t) -> ssize_t {
    get(Of::Link(path), name, into, room).unwrap_or_else(|| real::lgetxattr(path, name, into, room))
}

fn fgetxattr(fd: c_int, name: *const c_char, into: *mut c_void, room: size_t) -> ssize_t {
    get(Of::Descriptor(fd), name, into, room)
        .unwrap_or_else(|| real::fgetxattr(fd, name, into, room))
}

fn listxattr(path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t {
    list(Of::Path(path)).unwrap_or_else(|| real::listxattr(path, into, room))
}

fn llistxattr(path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t {
    list(Of::Link(path)).unwrap_or_else(|| real::llistxattr(path, into, room))
}

fn flistxattr(fd: c_int, into: *mut c_char, room: size_t) -> ssize_t {
    list(Of::Descriptor(fd)).unwrap_or_else(|| real::flistxattr(fd, into, room))
}

export! {
    setxattr => setxattr(path: *const c_char, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int;
    lsetxattr => lsetxattr(path: *const c_char, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int;
    fsetxattr => fsetxattr(fd: c_int, name: *const c_char, value: *const c_void, bytes: size_t, flags: c_int) -> c_int;
    getxattr => getxattr(path: *const c_char, name: *const c_char, into: *mut c_void, room: size_t) -> ssize_t;
    lgetxattr => lgetxattr(path: *const c_char, name: *const c_char, into: *mut c_void, room: size_t) -> ssize_t;
    fgetxattr => fgetxattr(fd: c_int, name: *const c_char, into: *mut c_void, room: size_t) -> ssize_t;
    listxattr => listxattr(path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t;
    llistxattr => llistxattr(path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t;
    flistxattr => flistxattr(fd: c_int, into: *mut c_char, room: size_t) -> ssize_t;
}
