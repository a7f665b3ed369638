//! Extended attributes.

use crate::description::reply::Reply;
use crate::serve::path::{self, CallerPlace, Way, on_open_descriptor, on_path, with_caller_string};
use crate::system::guarded_copy::copy;
use crate::system::real;
use egeria_engine::rights::{READ, WRITE};
use egeria_engine::{Attributes, Errno, FileKind, PathStop, Volume, XattrMode};
use libc::{c_char, c_int, c_void, size_t, ssize_t};

type Outcome = Result<Reply, PathStop>;

/// Longer names are refused by the kernel.
const MAX_NAME_BYTES: usize = 255;
/// Longer values are refused by the mount.
const MAX_VALUE_BYTES: usize = 4096;
/// Names that everybody may know of.
const OPEN_SPACES: [&[u8]; 2] = [b"user.", b"security."];

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

    fn by_kernel<T: From<i8>>(self) -> Option<T> {
        match self {
            Of::Path(path) | Of::Link(path) => {
                path::before_path(path);
                None
            }
            Of::Descriptor(fd) => path::by_kernel(fd),
        }
    }
}

/// What the mount answers for all attributes of this name; `None`: it depends on the inode.
fn unkept(name: &[u8]) -> Option<c_int> {
    name.starts_with(b"system.").then_some(libc::EOPNOTSUPP)
}

fn filled(value: &[u8], into: *mut u8, room: size_t) -> Reply {
    match room {
        0 => Reply::Done(value.len() as isize),
        _ if value.len() > room => Reply::Fails(libc::ERANGE),
        _ => match CallerPlace(into).fill(value) {
            Reply::Done(_) => Reply::Done(value.len() as isize),
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
            return Ok(Reply::Fails(errno));
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
                Ok(Reply::Fails(libc::EOPNOTSUPP))
            }
            Err(Errno(libc::ENODATA)) => Ok(Reply::Fails(libc::ENODATA)),
            Err(_) => Err(PathStop::Elsewhere),
        }
    };
    let answer = of.serve(|way, inode| {
        with_caller_string(name, |name| read(way, inode, name)).unwrap_or(Err(PathStop::Elsewhere))
    });
    answer.map(|bytes| bytes as ssize_t)
}

/// Who may know of `trusted.` ones is the kernel's to say.
fn list(of: Of, into: *mut c_char, room: size_t) -> Option<ssize_t> {
    let answer = of.serve(|way, inode| {
        let names = way.volume.list_xattr(inode.ino);
        let names = names.or(Err(PathStop::Elsewhere))?;
        let is_open = |name: &Vec<u8>| OPEN_SPACES.iter().any(|space| name.starts_with(space));
        if !names.iter().all(is_open) || !way.volume.has_generation(inode.ino, inode.generation) {
            return Err(PathStop::Elsewhere);
        }
        let ended = |mut name: Vec<u8>| {
            name.push(0);
            name
        };
        let listed: Vec<u8> = names.into_iter().flat_map(ended).collect();
        Ok(filled(&listed, into.cast(), room))
    });
    answer.map(|bytes| bytes as ssize_t)
}

/// Change an attribute that means something to programs alone.
fn change(
    of: Of,
    name: *const c_char,
    expected: &[c_int],
    change: impl FnOnce(&Volume, &Attributes, &[u8]) -> Result<(), Errno>,
) -> Option<c_int> {
    of.serve(|way, inode| {
        let changed = with_caller_string(name, |name| {
            // Access control lists, which tools try to set on all that they copy.
            if name.starts_with(b"system.posix_acl_") && way.usage.is_writable() {
                return Ok(Reply::Fails(libc::EOPNOTSUPP));
            }
            let credentials = &way.identity.credentials;
            let is_kind = match inode.kind() {
                FileKind::Regular => true,
                FileKind::Directory => {
                    inode.mode & libc::S_ISVTX == 0 || credentials.is_owner(inode)
                }
                _ => false,
            };
            let is_plain = is_kind
                && name.starts_with(b"user.")
                && name.len() <= MAX_NAME_BYTES
                && !name.starts_with(b"user.egeria.");
            let is_permitted = way.usage.is_writable()
                && !way.volume.are_names_watched()
                && credentials.may(inode, WRITE);
            if is_plain && is_permitted {
                Ok(Reply::expecting(change(way.volume, inode, name), expected))
            } else {
                Err(PathStop::Elsewhere)
            }
        });
        changed.unwrap_or(Err(PathStop::Elsewhere))
    })
}

fn set(
    of: Of,
    name: *const c_char,
    value: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> Option<c_int> {
    let mode = match flags {
        0 => XattrMode::Any,
        libc::XATTR_CREATE => XattrMode::Create,
        libc::XATTR_REPLACE => XattrMode::Replace,
        _ => return of.by_kernel(),
    };
    let expected = [libc::EEXIST, libc::ENODATA];
    change(of, name, &expected, |volume, inode, name| {
        let mut room = [0; MAX_VALUE_BYTES];
        let to = room.get_mut(..bytes).ok_or(Errno(libc::E2BIG))?;
        // SAFETY: all of `to` is ours.
        if !unsafe { copy(to.as_mut_ptr(), value.cast(), bytes) } {
            return Err(Errno(libc::EFAULT));
        }
        volume.set_xattr(inode, name, to, mode)
    })
}

fn remove(of: Of, name: *const c_char) -> Option<c_int> {
    change(of, name, &[libc::ENODATA], |volume, inode, name| {
        volume.remove_xattr(inode, name)
    })
}

fn setxattr(
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> c_int {
    set(Of::Path(path), name, value, bytes, flags)
        .unwrap_or_else(|| real::setxattr(path, name, value, bytes, flags))
}

fn lsetxattr(
    path: *const c_char,
    name: *const c_char,
    value: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> c_int {
    set(Of::Link(path), name, value, bytes, flags)
        .unwrap_or_else(|| real::lsetxattr(path, name, value, bytes, flags))
}

fn fsetxattr(
    fd: c_int,
    name: *const c_char,
    value: *const c_void,
    bytes: size_t,
    flags: c_int,
) -> c_int {
    set(Of::Descriptor(fd), name, value, bytes, flags)
        .unwrap_or_else(|| real::fsetxattr(fd, name, value, bytes, flags))
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
    list(Of::Path(path), into, room).unwrap_or_else(|| real::listxattr(path, into, room))
}

fn llistxattr(path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t {
    list(Of::Link(path), into, room).unwrap_or_else(|| real::llistxattr(path, into, room))
}

fn flistxattr(fd: c_int, into: *mut c_char, room: size_t) -> ssize_t {
    list(Of::Descriptor(fd), into, room).unwrap_or_else(|| real::flistxattr(fd, into, room))
}

fn removexattr(path: *const c_char, name: *const c_char) -> c_int {
    remove(Of::Path(path), name).unwrap_or_else(|| real::removexattr(path, name))
}

fn lremovexattr(path: *const c_char, name: *const c_char) -> c_int {
    remove(Of::Link(path), name).unwrap_or_else(|| real::lremovexattr(path, name))
}

fn fremovexattr(fd: c_int, name: *const c_char) -> c_int {
    remove(Of::Descriptor(fd), name).unwrap_or_else(|| real::fremovexattr(fd, name))
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
    removexattr => removexattr(path: *const c_char, name: *const c_char) -> c_int;
    lremovexattr => lremovexattr(path: *const c_char, name: *const c_char) -> c_int;
    fremovexattr => fremovexattr(fd: c_int, name: *const c_char) -> c_int;
}
