//! `lseek`, and calls that look at the position in the kernel.

use super::map::hand_over;
use super::refusal;
use crate::description::record::Record;
use crate::description::reply::Reply;
use crate::descriptors::offset::{self, Taking};
use crate::descriptors::{late_open, table};
use crate::files::range_locks;
use crate::serve::{self, guarded, serve};
use crate::system::{errno, raw, real};
use egeria_engine::Errno;
use libc::{c_int, c_void, off_t, size_t, ssize_t};

/// `lseek`.
pub(super) fn lseek(fd: c_int, to: off_t, whence: c_int) -> off_t {
    if !table::load(fd).is_ours() {
        // Not worth finding out: the kernel's position counts until the first data call.
        return real::lseek(fd, to, whence);
    }
    let body = |record: &Record| match seek_private(record, fd, to, whence) {
        Some(reply) => reply,
        None => seek_in_kernel(record, fd, to, whence),
    };
    serve(fd, body).map_or_else(|| real::lseek(fd, to, whence), |value| value as off_t)
}

fn seek_private(record: &Record, fd: c_int, to: off_t, whence: c_int) -> Option<Reply> {
    record.offset.with(|offset_bytes| {
        let target = match whence {
            libc::SEEK_SET => Some(to),
            libc::SEEK_CUR => (*offset_bytes as i64).checked_add(to),
            libc::SEEK_END if !record.is_directory() => record
                .size_bytes()
                .ok()
                .and_then(|size| (size as i64).checked_add(to)),
            libc::SEEK_DATA | libc::SEEK_HOLE
                if let Some(found) = seek_content(record, to, whence) =>
            {
                match found {
                    Ok(target) => Some(target),
                    Err(errno) => return Reply::Fails(errno),
                }
            }
            _ => {
                if let Err(errno) = late_open::open_in_kernel(record, fd) {
                    return Reply::Fails(errno);
                }
                match raw::lseek(fd, to, whence) {
                    error @ ..0 => return Reply::Asked(error),
                    target => Some(target as i64),
                }
            }
        };
        match target.filter(|&target| target >= 0) {
            Some(target) => {
                *offset_bytes = target as u64;
                Reply::Done(target as isize)
            }
            None => Reply::Fails(libc::EINVAL),
        }
    })
}

/// Where the next data or hole begins. `None`: the kernel asks the mount, and its own pages count.
fn seek_content(record: &Record, from: off_t, whence: c_int) -> Option<Result<i64, c_int>> {
    if !record.is_deferred() || record.is_directory() || record.is_kernel_cached() {
        return None;
    }
    let (volume, file) = (record.volume(), record.file());
    let from = u64::try_from(from).ok()?;
    let found = match whence {
        libc::SEEK_DATA => volume.seek_data(file, from),
        _ => volume.seek_hole(file, from),
    };
    match found {
        Ok(found) => Some(Ok(found as i64)),
        Err(Errno(libc::ENXIO)) => Some(Err(libc::ENXIO)),
        Err(_) => None,
    }
}

fn seek_in_kernel(record: &Record, fd: c_int, to: off_t, whence: c_int) -> Reply {
    let Some(slot) = record.slot() else {
        return Reply::Pass;
    };
    let sought = || Reply::Asked(raw::lseek(fd, to, whence));
    let sought = record.volume().description_locked(slot, sought);
    sought.unwrap_or(Reply::Pass)
}

/// `FIONREAD` is the size less the position: the kernel's ideas of both may be old.
fn ioctl(fd: c_int, request: u64, argument: *mut c_void) -> c_int {
    if request == libc::FIONREAD && table::load(fd).is_ours() {
        let mut left = None;
        serve(fd, |record| {
            if record.is_directory() {
                return Reply::Pass;
            }
            let direct = |at: u64, _| {
                let size = record.size_bytes()?;
                left = Some((size as i64).wrapping_sub(at as i64) as c_int);
                Ok((at, 0))
            };
            offset::moving(record, fd, Taking::Nothing, direct, || 0)
        });
        if left.is_some_and(|left| guarded::store(fd, argument.cast::<c_int>(), left)) {
            return 0;
        }
    }
    if let Some(errno) = refusal::of_request(fd, request, argument) {
        errno::set(errno);
        return -1;
    }
    if let Err(errno) = serve::try_open_in_kernel(fd) {
        errno::set(errno);
        return -1;
    }
    real::ioctl(fd, request, argument)
}

fn splice(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    bytes: size_t,
    flags: u32,
) -> ssize_t {
    hand_over(from);
    hand_over(to);
    real::splice(from, from_at, to, to_at, bytes, flags)
}

/// Locks a range from the position on.
fn lockf(fd: c_int, command: c_int, bytes: off_t) -> c_int {
    range_locks::note(fd);
    serve::publish(fd);
    real::lockf(fd, command, bytes)
}

export! {
    lseek, lseek64, __lseek, llseek => lseek(fd: c_int, to: off_t, whence: c_int) -> off_t;
    ioctl => ioctl(fd: c_int, request: u64, argument: *mut c_void) -> c_int;
    splice => splice(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, bytes: size_t, flags: u32) -> ssize_t;
    lockf, lockf64 => lockf(fd: c_int, command: c_int, bytes: off_t) -> c_int;
}
