//! What is said of inodes: `stat` and its kin, `access`, `readlink`.

use crate::description::reply::Reply;
use crate::serve::path::{CallerPlace, Way, by_kernel_at, on_descriptor, on_path};
use crate::system::zeros::zeros;
use crate::system::{caller, real};
use crate::trust::{devices, settings};
use egeria_engine::rights::{EXECUTE, READ, WRITE};
use egeria_engine::{Attributes, FileKind, InodeNumber, PathStop};
use libc::{c_char, c_int, c_uint, size_t, ssize_t};

const NS_PER_S: i64 = 1_000_000_000;
const BLOCK_SECTORS: u64 = 8;
/// Version of the structure that the oldest names of `stat` are given.
const STAT_VERSIONS: [c_int; 2] = [0, 1];

/// Devices are shown by the kernel, with numbers as it has them.
fn is_plain(attributes: &Attributes) -> bool {
    let devices = [FileKind::CharacterDevice, FileKind::BlockDevice];
    !devices.contains(&attributes.kind())
}

fn stat_of(way: &Way<'_>, attributes: &Attributes) -> libc::stat {
    let mut stat: libc::stat = zeros();
    let template = &way.mount.template;
    stat.st_dev = libc::makedev(template.stx_dev_major, template.stx_dev_minor);
    stat.st_ino = attributes.ino.0;
    stat.st_nlink = attributes.nlink.into();
    stat.st_mode = attributes.mode;
    stat.st_uid = attributes.uid;
    stat.st_gid = attributes.gid;
    stat.st_size = attributes.size_bytes as i64;
    stat.st_blksize = template.stx_blksize.into();
    stat.st_blocks = attributes.blocks.saturating_mul(BLOCK_SECTORS) as i64;
    let parts = |time_ns: i64| (time_ns.div_euclid(NS_PER_S), time_ns.rem_euclid(NS_PER_S));
    (stat.st_atime, stat.st_atime_nsec) = parts(attributes.atime_ns);
    (stat.st_mtime, stat.st_mtime_nsec) = parts(attributes.mtime_ns);
    (stat.st_ctime, stat.st_ctime_nsec) = parts(attributes.ctime_ns);
    stat
}

fn statx_of(way: &Way<'_>, attributes: &Attributes) -> libc::statx {
    let time = |time_ns: i64| {
        let mut time: libc::statx_timestamp = zeros();
        time.tv_sec = time_ns.div_euclid(NS_PER_S);
        time.tv_nsec = time_ns.rem_euclid(NS_PER_S) as u32;
        time
    };
    let mut facts = way.mount.template;
    // Set for the root alone, which the kernel shows.
    facts.stx_attributes = 0;
    facts.stx_nlink = attributes.nlink;
    facts.stx_uid = attributes.uid;
    facts.stx_gid = attributes.gid;
    facts.stx_mode = attributes.mode as u16;
    facts.stx_ino = attributes.ino.0;
    facts.stx_size = attributes.size_bytes;
    facts.stx_blocks = attributes.blocks.saturating_mul(BLOCK_SECTORS);
    facts.stx_atime = time(attributes.atime_ns);
    facts.stx_mtime = time(attributes.mtime_ns);
    facts.stx_ctime = time(attributes.ctime_ns);
    facts
}

fn shown<T: Copy>(
    way: &Way<'_>,
    attributes: &Attributes,
    into: *mut T,
    make: impl FnOnce(&Way<'_>, &Attributes) -> T,
) -> Reply {
    // What was stored through mappings is in the kernel's pages first, and counts.
    let has_stores = || way.volume.has_kernel_pages(attributes.ino);
    if is_plain(attributes) && !has_stores() {
        way.volume.note_times_shown(attributes.ino);
        CallerPlace(into).fill(&[make(way, attributes)])
    } else {
        Reply::Pass
    }
}

fn found_by(way: &Way<'_>, flags: c_int) -> Result<Attributes, PathStop> {
    let follows_last = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
    way.find_or_own(follows_last, flags & libc::AT_EMPTY_PATH != 0)
}

/// `fstatat`, with what its flags may be here.
fn stat_at(
    directory: c_int,
    path: *const c_char,
    into: *mut libc::stat,
    flags: c_int,
) -> Option<c_int> {
    const KNOWN: c_int = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT | libc::AT_EMPTY_PATH;
    if flags & !KNOWN != 0 {
        return by_kernel_at(directory, path);
    }
    on_path(directory, path, |way| {
        let found = found_by(way, flags)?;
        Ok(shown(way, &found, into, stat_of))
    })
}

fn stat(path: *const c_char, into: *mut libc::stat) -> c_int {
    stat_at(libc::AT_FDCWD, path, into, 0).unwrap_or_else(|| real::stat(path, into))
}

fn lstat(path: *const c_char, into: *mut libc::stat) -> c_int {
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    stat_at(libc::AT_FDCWD, path, into, flags).unwrap_or_else(|| real::lstat(path, into))
}

/// `fstatat`.
pub(super) fn fstatat(
    directory: c_int,
    path: *const c_char,
    into: *mut libc::stat,
    flags: c_int,
) -> c_int {
    stat_at(directory, path, into, flags)
        .unwrap_or_else(|| real::fstatat(directory, path, into, flags))
}

/// `fstat`.
pub(super) fn fstat(fd: c_int, into: *mut libc::stat) -> c_int {
    on_descriptor(fd, |way| Ok(shown(way, &way.inode()?, into, stat_of)))
        .unwrap_or_else(|| real::fstat(fd, into))
}

fn xstat(version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int {
    if STAT_VERSIONS.contains(&version) {
        stat(path, into)
    } else {
        real::__xstat(version, path, into)
    }
}

fn lxstat(version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int {
    if STAT_VERSIONS.contains(&version) {
        lstat(path, into)
    } else {
        real::__lxstat(version, path, into)
    }
}

fn fxstat(version: c_int, fd: c_int, into: *mut libc::stat) -> c_int {
    if STAT_VERSIONS.contains(&version) {
        fstat(fd, into)
    } else {
        real::__fxstat(version, fd, into)
    }
}

fn fxstatat(
    version: c_int,
    directory: c_int,
    path: *const c_char,
    into: *mut libc::stat,
    flags: c_int,
) -> c_int {
    if STAT_VERSIONS.contains(&version) {
        fstatat(directory, path, into, flags)
    } else {
        real::__fxstatat(version, directory, path, into, flags)
    }
}

/// `statx`.
pub(super) fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    into: *mut libc::statx,
) -> c_int {
    direct_statx(directory, path, flags, mask, into)
        .unwrap_or_else(|| statx_by_kernel(directory, path, flags, mask, into))
}

fn direct_statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    into: *mut libc::statx,
) -> Option<c_int> {
    const KNOWN: c_int = libc::AT_SYMLINK_NOFOLLOW
        | libc::AT_NO_AUTOMOUNT
        | libc::AT_STATX_SYNC_TYPE
        | libc::AT_EMPTY_PATH;
    let is_sync_type = flags & libc::AT_STATX_SYNC_TYPE != libc::AT_STATX_SYNC_TYPE;
    // What is asked beyond what every file system tells: the kernel knows.
    let known = libc::STATX_BASIC_STATS | libc::STATX_BTIME | libc::STATX_MNT_ID;
    if flags & !KNOWN != 0 || !is_sync_type || mask & !known != 0 {
        return by_kernel_at(directory, path);
    }
    on_path(directory, path, |way| {
        let found = found_by(way, flags)?;
        match found.ino {
            InodeNumber::ROOT => Ok(Reply::Pass),
            _ => Ok(shown(way, &found, into, statx_of)),
        }
    })
}

/// Who tells the kernel not to look, or asks for nothing in particular, gets what it heard last. Of files that are
/// written past it that is of the past, so it is made to look.
fn statx_by_kernel(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    into: *mut libc::statx,
) -> c_int {
    let done = real::statx(directory, path, flags, mask, into);
    let looked = flags & libc::AT_STATX_DONT_SYNC == 0 && mask & libc::STATX_BASIC_STATS != 0;
    if done != 0 || looked || settings::is_off() || !devices::any() {
        return done;
    }
    // The kernel has just filled it.
    let is_ours = |found: libc::statx| devices::has(found.stx_dev_major, found.stx_dev_minor);
    if !caller::read(into).is_some_and(is_ours) {
        return done;
    }
    let flags = flags & !libc::AT_STATX_SYNC_TYPE | libc::AT_STATX_FORCE_SYNC;
    // For nothing in particular, FUSE is not asked even so.
    real::statx(directory, path, flags, mask | libc::STATX_BASIC_STATS, into)
}

fn access_at(directory: c_int, path: *const c_char, mode: c_int, flags: c_int) -> Option<c_int> {
    let wanted = mode as u32;
    if wanted & !(READ | WRITE | EXECUTE) != 0
        || flags & !(libc::AT_EACCESS | libc::AT_SYMLINK_NOFOLLOW) != 0
    {
        return by_kernel_at(directory, path);
    }
    on_path(directory, path, |way| {
        let identity = way.identity;
        let credentials = match flags & libc::AT_EACCESS {
            0 => identity.real.as_ref().ok_or(PathStop::Elsewhere)?,
            _ => &identity.credentials,
        };
        let found = way.find_as(credentials, flags & libc::AT_SYMLINK_NOFOLLOW == 0)?;
        let executes = wanted & EXECUTE != 0 && found.kind() == FileKind::Regular;
        let is_allowed = (wanted & WRITE == 0 || way.usage.is_writable())
            && (!executes || way.usage.is_executable())
            && credentials.may(&found, wanted);
        Ok(if is_allowed && is_plain(&found) {
            Reply::Done(0)
        } else {
            Reply::Pass
        })
    })
}

fn access(path: *const c_char, mode: c_int) -> c_int {
    access_at(libc::AT_FDCWD, path, mode, 0).unwrap_or_else(|| real::access(path, mode))
}

fn euidaccess(path: *const c_char, mode: c_int) -> c_int {
    access_at(libc::AT_FDCWD, path, mode, libc::AT_EACCESS)
        .unwrap_or_else(|| real::euidaccess(path, mode))
}

fn faccessat(directory: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int {
    access_at(directory, path, mode, flags)
        .unwrap_or_else(|| real::faccessat(directory, path, mode, flags))
}

fn target_at(
    directory: c_int,
    path: *const c_char,
    into: *mut c_char,
    room: size_t,
) -> Option<ssize_t> {
    if room == 0 {
        return by_kernel_at(directory, path);
    }
    on_path(directory, path, |way| {
        let found = way.find(false)?;
        if found.kind() != FileKind::Symlink {
            return Ok(Reply::Pass);
        }
        let target = way.volume.read_link(found.ino);
        let Ok(target) = target else {
            return Ok(Reply::Pass);
        };
        if !way.volume.has_generation(found.ino, found.generation) {
            return Ok(Reply::Pass);
        }
        let target = &target[..target.len().min(room)];
        Ok(match CallerPlace(into.cast::<u8>()).fill(target) {
            Reply::Done(_) => Reply::Done(target.len() as isize),
            bad => bad,
        })
    })
    .map(|bytes| bytes as ssize_t)
}

fn readlink(path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t {
    target_at(libc::AT_FDCWD, path, into, room).unwrap_or_else(|| real::readlink(path, into, room))
}

fn readlinkat(directory: c_int, path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t {
    target_at(directory, path, into, room)
        .unwrap_or_else(|| real::readlinkat(directory, path, into, room))
}

fn readlink_chk(path: *const c_char, into: *mut c_char, room: size_t, has: size_t) -> ssize_t {
    if room <= has {
        readlink(path, into, room)
    } else {
        real::__readlink_chk(path, into, room, has)
    }
}

fn readlinkat_chk(
    directory: c_int,
    path: *const c_char,
    into: *mut c_char,
    room: size_t,
    has: size_t,
) -> ssize_t {
    if room <= has {
        readlinkat(directory, path, into, room)
    } else {
        real::__readlinkat_chk(directory, path, into, room, has)
    }
}

export! {
    stat, stat64 => stat(path: *const c_char, into: *mut libc::stat) -> c_int;
    lstat, lstat64 => lstat(path: *const c_char, into: *mut libc::stat) -> c_int;
    fstat, fstat64 => fstat(fd: c_int, into: *mut libc::stat) -> c_int;
    fstatat, fstatat64 => fstatat(directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int;
    __xstat, __xstat64 => xstat(version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int;
    __lxstat, __lxstat64 => lxstat(version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int;
    __fxstat, __fxstat64 => fxstat(version: c_int, fd: c_int, into: *mut libc::stat) -> c_int;
    __fxstatat, __fxstatat64 => fxstatat(version: c_int, directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int;
    statx => statx(directory: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut libc::statx) -> c_int;
    access => access(path: *const c_char, mode: c_int) -> c_int;
    euidaccess, eaccess => euidaccess(path: *const c_char, mode: c_int) -> c_int;
    faccessat => faccessat(directory: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int;
    readlink => readlink(path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t;
    readlinkat => readlinkat(directory: c_int, path: *const c_char, into: *mut c_char, room: size_t) -> ssize_t;
    __readlink_chk => readlink_chk(path: *const c_char, into: *mut c_char, room: size_t, has: size_t) -> ssize_t;
    __readlinkat_chk => readlinkat_chk(directory: c_int, path: *const c_char, into: *mut c_char, room: size_t, has: size_t) -> ssize_t;
}
