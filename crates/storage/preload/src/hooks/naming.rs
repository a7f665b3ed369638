//! Names made, renamed and removed.

use crate::description::reply::Reply;
use crate::serve;
use crate::serve::path::{Way, on_path, on_two_paths, with_caller_string};
use crate::system::real;
use crate::volumes::identity::without_umask;
use egeria_engine::{Attributes, FileKind, NewInode, PathEnd, PathStop, RenameMode};
use libc::{c_char, c_int, c_uint, mode_t};

const NEW_DIRECTORY_BITS: u32 = 0o1777;

/// Where a name can be made or removed: on a writable mount, when nobody wants to hear of it.
pub(super) fn end_to_change(way: &Way<'_>) -> Result<PathEnd, PathStop> {
    if way.usage.is_writable() && !way.volume.are_names_watched() {
        way.find_end()
    } else {
        Err(PathStop::Elsewhere)
    }
}

/// Whether a kernel uses an inode without asking, or shows the name by which it was opened: then the name must go, or
/// change, through the mount.
fn is_used_by_kernel(way: &Way<'_>, named: &Attributes) -> bool {
    match named.kind() {
        FileKind::Regular => way.volume.is_open(named.ino),
        FileKind::Directory | FileKind::Symlink => way.volume.is_referenced_by_kernel(named.ino),
        _ => true,
    }
}

/// The same of what is to be removed. A file that only the engine has open is found by its number later, by who may make
/// names in the root; who has a directory open can have it opened in the kernel as long as it has a name.
fn is_removed_by_kernel(way: &Way<'_>, named: &Attributes) -> bool {
    match named.kind() {
        FileKind::Regular => {
            way.volume.is_open_in_kernel(named.ino)
                || (way.volume.is_open(named.ino) && !way.may_open_by_number())
        }
        _ => is_used_by_kernel(way, named) || way.volume.is_open(named.ino),
    }
}

/// Whether the kernel must move a name. A file that only the engine has open is found by its inode under its new name
/// later, when it has that name alone and did not leave its directory.
fn is_moved_by_kernel(way: &Way<'_>, moved: &Attributes, is_in_one: bool) -> bool {
    match moved.kind() {
        FileKind::Regular if is_in_one && moved.nlink == 1 => {
            way.volume.is_open_in_kernel(moved.ino)
        }
        _ => is_used_by_kernel(way, moved),
    }
}

/// A name of a file that is open: the kernel must have it open, to know its path later.
fn by_kernel<T>(call: impl FnOnce() -> T) -> T {
    serve::open_all_in_kernel();
    call()
}

/// `mkdirat`; `None` when the kernel is to do it.
pub(super) fn make_directory(directory: c_int, path: *const c_char, mode: mode_t) -> Option<c_int> {
    on_path(directory, path, |way| {
        let end = end_to_change(way)?;
        let credentials = &way.identity.credentials;
        if !credentials.may_add(&end.directory) {
            return Err(PathStop::Elsewhere);
        }
        let permissions = without_umask(mode & NEW_DIRECTORY_BITS).ok_or(PathStop::Elsewhere)?;
        let new = NewInode {
            mode: libc::S_IFDIR | permissions,
            uid: credentials.uid,
            gid: credentials.gid,
            rdev: 0,
        };
        let made = way.volume.create(&end.directory, &end.name, &new);
        Ok(Reply::expecting(made, &[libc::EEXIST]))
    })
}

fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    make_directory(libc::AT_FDCWD, path, mode).unwrap_or_else(|| real::mkdir(path, mode))
}

fn mkdirat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int {
    make_directory(directory, path, mode).unwrap_or_else(|| real::mkdirat(directory, path, mode))
}

fn make_symlink(target: *const c_char, directory: c_int, path: *const c_char) -> Option<c_int> {
    on_path(directory, path, |way| {
        let end = end_to_change(way)?;
        let credentials = &way.identity.credentials;
        if end.wants_directory || !credentials.may_add(&end.directory) {
            return Err(PathStop::Elsewhere);
        }
        let (uid, gid) = (credentials.uid, credentials.gid);
        let made = with_caller_string(target, |target| {
            let volume = way.volume;
            volume.symlink(&end.directory, &end.name, target, uid, gid)
        });
        Ok(Reply::expecting(
            made.ok_or(PathStop::Elsewhere)?,
            &[libc::EEXIST],
        ))
    })
}

fn symlink(target: *const c_char, path: *const c_char) -> c_int {
    make_symlink(target, libc::AT_FDCWD, path).unwrap_or_else(|| real::symlink(target, path))
}

fn symlinkat(target: *const c_char, directory: c_int, path: *const c_char) -> c_int {
    make_symlink(target, directory, path)
        .unwrap_or_else(|| real::symlinkat(target, directory, path))
}

fn remove_file(directory: c_int, path: *const c_char) -> Option<c_int> {
    on_path(directory, path, |way| {
        let end = end_to_change(way)?;
        let named = way.named(&end)?;
        let is_removable = !end.wants_directory
            && named.kind() != FileKind::Directory
            && !is_removed_by_kernel(way, &named)
            && way.identity.credentials.may_remove(&end.directory, &named);
        if !is_removable {
            return Err(PathStop::Elsewhere);
        }
        let removed = way.volume.unlink(&end.directory, &end.name);
        Ok(Reply::expecting(removed, &[libc::ENOENT]))
    })
}

fn remove_directory(directory: c_int, path: *const c_char) -> Option<c_int> {
    on_path(directory, path, |way| {
        let end = end_to_change(way)?;
        let named = way.named(&end)?;
        let is_removable = named.kind() == FileKind::Directory
            && !is_removed_by_kernel(way, &named)
            && way.identity.credentials.may_remove(&end.directory, &named);
        if !is_removable {
            return Err(PathStop::Elsewhere);
        }
        let removed = way.volume.remove_directory(&end.directory, &end.name);
        Ok(Reply::expecting(removed, &[libc::ENOENT, libc::ENOTEMPTY]))
    })
}

fn unlink(path: *const c_char) -> c_int {
    remove_file(libc::AT_FDCWD, path).unwrap_or_else(|| by_kernel(|| real::unlink(path)))
}

fn rmdir(path: *const c_char) -> c_int {
    remove_directory(libc::AT_FDCWD, path).unwrap_or_else(|| by_kernel(|| real::rmdir(path)))
}

fn unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int {
    let removed = match flags {
        0 => remove_file(directory, path),
        libc::AT_REMOVEDIR => remove_directory(directory, path),
        _ => None,
    };
    removed.unwrap_or_else(|| by_kernel(|| real::unlinkat(directory, path, flags)))
}

fn remove(path: *const c_char) -> c_int {
    remove_file(libc::AT_FDCWD, path)
        .or_else(|| remove_directory(libc::AT_FDCWD, path))
        .unwrap_or_else(|| by_kernel(|| real::remove(path)))
}

fn move_name(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    flags: c_uint,
) -> Option<c_int> {
    let mode = match flags {
        0 => RenameMode::Replace,
        libc::RENAME_NOREPLACE => RenameMode::NoReplace,
        _ => return None,
    };
    on_two_paths([from, to], |from, to| {
        let (old, new) = (end_to_change(from)?, end_to_change(to)?);
        let moved = from.named(&old)?;
        let replaced = match to.named(&new) {
            Ok(replaced) => Some(replaced),
            Err(PathStop::Missing) => None,
            Err(stop) => return Err(stop),
        };
        let is_directory = moved.kind() == FileKind::Directory;
        let is_in_one = old.directory.ino == new.directory.ino;
        let credentials = &from.identity.credentials;
        let may_place = match &replaced {
            Some(replaced) => {
                credentials.may_remove(&new.directory, replaced)
                    && !is_removed_by_kernel(to, replaced)
            }
            None => credentials.may_add(&new.directory),
        };
        // A kernel that knows a directory keeps its place in its own tree.
        let is_movable = !is_moved_by_kernel(from, &moved, is_in_one)
            && (is_directory || !(old.wants_directory || new.wants_directory))
            && (!is_directory
                || is_in_one
                || credentials.may(&moved, egeria_engine::rights::WRITE))
            && credentials.may_remove(&old.directory, &moved)
            && may_place;
        if !is_movable {
            return Err(PathStop::Elsewhere);
        }
        let volume = from.volume;
        let (old_directory, new_directory) = (&old.directory, &new.directory);
        let moved = volume.rename(old_directory, &old.name, new_directory, &new.name, mode);
        Ok(Reply::expecting(
            moved,
            &[libc::ENOENT, libc::EEXIST, libc::ENOTEMPTY],
        ))
    })
}

fn rename(from: *const c_char, to: *const c_char) -> c_int {
    let here = libc::AT_FDCWD;
    move_name((here, from), (here, to), 0).unwrap_or_else(|| by_kernel(|| real::rename(from, to)))
}

fn renameat(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
) -> c_int {
    move_name((from_directory, from), (to_directory, to), 0)
        .unwrap_or_else(|| by_kernel(|| real::renameat(from_directory, from, to_directory, to)))
}

fn renameat2(
    from_directory: c_int,
    from: *const c_char,
    to_directory: c_int,
    to: *const c_char,
    flags: c_uint,
) -> c_int {
    move_name((from_directory, from), (to_directory, to), flags).unwrap_or_else(|| {
        by_kernel(|| real::renameat2(from_directory, from, to_directory, to, flags))
    })
}

export! {
    mkdir => mkdir(path: *const c_char, mode: mode_t) -> c_int;
    mkdirat => mkdirat(directory: c_int, path: *const c_char, mode: mode_t) -> c_int;
    symlink => symlink(target: *const c_char, path: *const c_char) -> c_int;
    symlinkat => symlinkat(target: *const c_char, directory: c_int, path: *const c_char) -> c_int;
    unlink => unlink(path: *const c_char) -> c_int;
    rmdir => rmdir(path: *const c_char) -> c_int;
    unlinkat => unlinkat(directory: c_int, path: *const c_char, flags: c_int) -> c_int;
    remove => remove(path: *const c_char) -> c_int;
    rename => rename(from: *const c_char, to: *const c_char) -> c_int;
    renameat => renameat(from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char) -> c_int;
    renameat2 => renameat2(from_directory: c_int, from: *const c_char, to_directory: c_int, to: *const c_char, flags: c_uint) -> c_int;
}
