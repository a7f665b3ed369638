//! Sizes and blocks of open files changed: `ftruncate`, `fallocate`.

use super::passing;
use crate::description::record::Record;
use crate::description::reply::Reply;
use crate::descriptors::{table, writing};
use crate::serve::serve;
use crate::system::real;
use crate::trust::settings;
use egeria_engine::{AllocateMode, AttributeChange, Errno};
use libc::{c_int, off_t};

/// Change an open file past the kernel, unless it must see to a limit on file sizes, or to whether setuid and setgid
/// bits stay.
fn change(record: &Record, change: impl FnOnce() -> Result<(), Errno>) -> Reply {
    let may_change =
        record.is_writable() && !settings::file_size_limited() && !writing::has_setid(record);
    if may_change && change().is_ok() {
        Reply::Done(0)
    } else {
        Reply::Pass
    }
}

fn ftruncate(fd: c_int, bytes: off_t) -> c_int {
    if !table::load(fd).is_ours() {
        return real::ftruncate(fd, bytes);
    }
    let truncate = |record: &Record| {
        let Ok(bytes) = u64::try_from(bytes) else {
            return Reply::Pass;
        };
        let wanted = AttributeChange {
            size_bytes: Some(bytes),
            ..AttributeChange::default()
        };
        let set = || record.volume().set_attributes_direct(record.ino(), &wanted);
        change(record, set)
    };
    serve(fd, truncate).map_or_else(|| real::ftruncate(fd, bytes), |value| value as c_int)
}

/// Whether the engine did what `fallocate` is to do.
fn is_allocated(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> bool {
    let (Some(mode), Ok(offset), Ok(bytes)) = (
        AllocateMode::of_flags(mode),
        u64::try_from(offset),
        u64::try_from(bytes),
    ) else {
        return false;
    };
    let allocate = |record: &Record| {
        change(record, || {
            record
                .volume()
                .allocate_direct(record.file(), offset, bytes, mode)
        })
    };
    table::load(fd).is_ours() && serve(fd, allocate).is_some()
}

fn fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int {
    if is_allocated(fd, mode, offset, bytes) {
        0
    } else {
        passing::fallocate(fd, mode, offset, bytes)
    }
}

fn posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int {
    if is_allocated(fd, 0, offset, bytes) {
        0
    } else {
        passing::posix_fallocate(fd, offset, bytes)
    }
}

export! {
    ftruncate, ftruncate64 => ftruncate(fd: c_int, bytes: off_t) -> c_int;
    fallocate, fallocate64 => fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int;
    posix_fallocate, posix_fallocate64 => posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int;
}
