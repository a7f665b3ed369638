//! Attributes changed: permissions, owners, times, and sizes by path.

use crate::description::reply::Reply;
use crate::serve::guarded;
use crate::serve::path::{Way, by_kernel_at, on_open_descriptor, on_path};
use crate::system::real;
use crate::trust::settings;
use egeria_engine::rights::{SETID, WRITE};
use egeria_engine::{AttributeChange, Attributes, FileKind, PathStop, TimeChange};
use libc::{c_char, c_int, gid_t, mode_t, off_t, time_t, timespec, timeval, uid_t};

type Outcome = Result<Reply, PathStop>;

const NS_PER_S: i64 = 1_000_000_000;
const NS_PER_US: i64 = 1_000;
/// "As it is", for owners and groups.
const KEEP: u32 = u32::MAX;

/// Change an inode that cannot become another meanwhile.
fn change(way: &Way<'_>, inode: &Attributes, change: &AttributeChange, drops: bool) -> Outcome {
    let plain = [FileKind::Regular, FileKind::Directory, FileKind::Symlink];
    if !way.usage.is_writable() || way.volume.are_names_watched() || !plain.contains(&inode.kind())
    {
        return Err(PathStop::Elsewhere);
    }
    let has_setid = inode.mode & SETID != 0 && inode.kind() != FileKind::Directory;
    if drops && has_setid {
        return Err(PathStop::Elsewhere);
    }
    let volume = way.volume;
    let dropped = if drops {
        volume.drop_capability(inode)
    } else {
        Ok(())
    };
    let set = || volume.set_attributes(inode, change);
    Ok(Reply::expecting(dropped.and_then(|()| set()), &[]))
}

fn set_permissions(way: &Way<'_>, inode: &Attributes, mode: mode_t) -> Outcome {
    let permissions = way.identity.credentials.permissions_to_set(inode, mode);
    if inode.kind() == FileKind::Symlink || permissions.is_none() {
        return Err(PathStop::Elsewhere);
    }
    let wanted = AttributeChange {
        permissions,
        ..AttributeChange::default()
    };
    change(way, inode, &wanted, false)
}

fn chmod(path: *const c_char, mode: mode_t) -> c_int {
    chmod_at(libc::AT_FDCWD, path, mode, 0).unwrap_or_else(|| real::chmod(path, mode))
}

fn chmod_at(directory: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> Option<c_int> {
    if flags & !libc::AT_SYMLINK_NOFOLLOW != 0 {
        return by_kernel_at(directory, path);
    }
    on_path(directory, path, |way| {
        let found = way.find(flags & libc::AT_SYMLINK_NOFOLLOW == 0)?;
        set_permissions(way, &found, mode)
    })
}

fn fchmodat(directory: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int {
    chmod_at(directory, path, mode, flags)
        .unwrap_or_else(|| real::fchmodat(directory, path, mode, flags))
}

fn fchmod(fd: c_int, mode: mode_t) -> c_int {
    on_open_descriptor(fd, |way| set_permissions(way, &way.inode()?, mode))
        .unwrap_or_else(|| real::fchmod(fd, mode))
}

fn set_owner(way: &Way<'_>, inode: &Attributes, uid: uid_t, gid: gid_t) -> Outcome {
    let given = |id: u32| (id != KEEP).then_some(id);
    let (uid, gid) = (given(uid), given(gid));
    let nothing = uid.is_none() && gid.is_none();
    if nothing || !way.identity.credentials.may_give(inode, uid, gid) {
        return Err(PathStop::Elsewhere);
    }
    let wanted = AttributeChange {
        uid,
        gid,
        ..AttributeChange::default()
    };
    change(way, inode, &wanted, true)
}

fn chown_at(
    directory: c_int,
    path: *const c_char,
    uid: uid_t,
    gid: gid_t,
    flags: c_int,
) -> Option<c_int> {
    if flags & !libc::AT_SYMLINK_NOFOLLOW != 0 {
        return by_kernel_at(directory, path);
    }
    on_path(directory, path, |way| {
        let found = way.find(flags & libc::AT_SYMLINK_NOFOLLOW == 0)?;
        set_owner(way, &found, uid, gid)
    })
}

fn chown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int {
    chown_at(libc::AT_FDCWD, path, uid, gid, 0).unwrap_or_else(|| real::chown(path, uid, gid))
}

fn lchown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int {
    chown_at(libc::AT_FDCWD, path, uid, gid, libc::AT_SYMLINK_NOFOLLOW)
        .unwrap_or_else(|| real::lchown(path, uid, gid))
}

fn fchownat(directory: c_int, path: *const c_char, uid: uid_t, gid: gid_t, flags: c_int) -> c_int {
    chown_at(directory, path, uid, gid, flags)
        .unwrap_or_else(|| real::fchownat(directory, path, uid, gid, flags))
}

fn fchown(fd: c_int, uid: uid_t, gid: gid_t) -> c_int {
    on_open_descriptor(fd, |way| set_owner(way, &way.inode()?, uid, gid))
        .unwrap_or_else(|| real::fchown(fd, uid, gid))
}

/// Access and modification time, `None` as it is.
#[derive(Clone, Copy)]
struct Times([Option<TimeChange>; 2]);

impl Times {
    const NOW: Times = Times([Some(TimeChange::Now); 2]);

    /// As `utimensat` reads them; `None` for what the kernel refuses, or a bad address.
    fn of_nanoseconds(from: *const timespec) -> Option<Times> {
        if from.is_null() {
            return Some(Times::NOW);
        }
        let times = guarded::look(from.cast::<[timespec; 2]>())?;
        let mut read = [None; 2];
        for (read, time) in read.iter_mut().zip(times) {
            *read = match time.tv_nsec {
                libc::UTIME_NOW => Some(TimeChange::Now),
                libc::UTIME_OMIT => None,
                ns => Some(at(time.tv_sec, ns)?),
            };
        }
        Some(Times(read))
    }

    fn of_microseconds(from: *const timeval) -> Option<Times> {
        if from.is_null() {
            return Some(Times::NOW);
        }
        let times = guarded::look(from.cast::<[timeval; 2]>())?;
        let [one, other] = times.map(|time| {
            let is_whole = (0..NS_PER_S / NS_PER_US).contains(&time.tv_usec);
            is_whole.then(|| at(time.tv_sec, time.tv_usec * NS_PER_US))?
        });
        Some(Times([Some(one?), Some(other?)]))
    }

    fn of_seconds(from: *const libc::utimbuf) -> Option<Times> {
        if from.is_null() {
            return Some(Times::NOW);
        }
        let times = guarded::look(from)?;
        Some(Times([
            Some(at(times.actime, 0)?),
            Some(at(times.modtime, 0)?),
        ]))
    }
}

/// A time that a volume can hold; the kernel brings others into its range.
fn at(seconds: time_t, ns: i64) -> Option<TimeChange> {
    let is_valid = (0..NS_PER_S).contains(&ns);
    let whole = || seconds.checked_mul(NS_PER_S)?.checked_add(ns);
    is_valid.then(whole)?.map(TimeChange::At)
}

fn set_times(way: &Way<'_>, inode: &Attributes, times: Option<Times>) -> Outcome {
    let Some(Times([atime, mtime])) = times else {
        return Err(PathStop::Elsewhere);
    };
    let credentials = &way.identity.credentials;
    let is_now = [atime, mtime] == [Some(TimeChange::Now); 2];
    let is_allowed = credentials.is_owner(inode) || (is_now && credentials.may(inode, WRITE));
    if !is_allowed || (atime.is_none() && mtime.is_none()) {
        return Err(PathStop::Elsewhere);
    }
    let wanted = AttributeChange {
        atime,
        mtime,
        ..AttributeChange::default()
    };
    change(way, inode, &wanted, false)
}

fn times_at(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    times: impl FnOnce() -> Option<Times>,
) -> Option<c_int> {
    if flags & !libc::AT_SYMLINK_NOFOLLOW != 0 {
        return by_kernel_at(directory, path);
    }
    on_path(directory, path, |way| {
        let found = way.find(flags & libc::AT_SYMLINK_NOFOLLOW == 0)?;
        set_times(way, &found, times())
    })
}

fn utimensat(directory: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int {
    times_at(directory, path, flags, || Times::of_nanoseconds(times))
        .unwrap_or_else(|| real::utimensat(directory, path, times, flags))
}

fn futimens(fd: c_int, times: *const timespec) -> c_int {
    on_open_descriptor(fd, |way| {
        set_times(way, &way.inode()?, Times::of_nanoseconds(times))
    })
    .unwrap_or_else(|| real::futimens(fd, times))
}

fn utimes(path: *const c_char, times: *const timeval) -> c_int {
    times_at(libc::AT_FDCWD, path, 0, || Times::of_microseconds(times))
        .unwrap_or_else(|| real::utimes(path, times))
}

fn lutimes(path: *const c_char, times: *const timeval) -> c_int {
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    times_at(libc::AT_FDCWD, path, flags, || {
        Times::of_microseconds(times)
    })
    .unwrap_or_else(|| real::lutimes(path, times))
}

fn utime(path: *const c_char, times: *const libc::utimbuf) -> c_int {
    times_at(libc::AT_FDCWD, path, 0, || Times::of_seconds(times))
        .unwrap_or_else(|| real::utime(path, times))
}

fn truncate(path: *const c_char, bytes: off_t) -> c_int {
    let truncated = on_path(libc::AT_FDCWD, path, |way| {
        let found = way.find(true)?;
        let is_plain = found.kind() == FileKind::Regular
            && found.mode & SETID == 0
            && way.usage.is_writable()
            && way.identity.credentials.may(&found, WRITE)
            && !way.volume.are_names_watched()
            && !way.volume.is_open_in_kernel(found.ino)
            && !settings::file_size_limited();
        let size_bytes = u64::try_from(bytes).ok().filter(|_| is_plain);
        let Some(size_bytes) = size_bytes else {
            return Err(PathStop::Elsewhere);
        };
        let wanted = AttributeChange {
            size_bytes: Some(size_bytes),
            ..AttributeChange::default()
        };
        let volume = way.volume;
        let dropped = volume.drop_capability(&found);
        let set = || volume.set_attributes_direct(&found, &wanted);
        Ok(Reply::expecting(dropped.and_then(|()| set()), &[]))
    });
    truncated.unwrap_or_else(|| real::truncate(path, bytes))
}

export! {
    truncate, truncate64 => truncate(path: *const c_char, bytes: off_t) -> c_int;
    chmod => chmod(path: *const c_char, mode: mode_t) -> c_int;
    fchmodat => fchmodat(directory: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int;
    fchmod => fchmod(fd: c_int, mode: mode_t) -> c_int;
    chown => chown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int;
    lchown => lchown(path: *const c_char, uid: uid_t, gid: gid_t) -> c_int;
    fchownat => fchownat(directory: c_int, path: *const c_char, uid: uid_t, gid: gid_t, flags: c_int) -> c_int;
    fchown => fchown(fd: c_int, uid: uid_t, gid: gid_t) -> c_int;
    utimensat => utimensat(directory: c_int, path: *const c_char, times: *const timespec, flags: c_int) -> c_int;
    futimens => futimens(fd: c_int, times: *const timespec) -> c_int;
    utimes => utimes(path: *const c_char, times: *const timeval) -> c_int;
    lutimes => lutimes(path: *const c_char, times: *const timeval) -> c_int;
    utime => utime(path: *const c_char, times: *const libc::utimbuf) -> c_int;
}
