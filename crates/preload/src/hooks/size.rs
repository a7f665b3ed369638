//! Sizes and blocks of open files changed: `ftruncate`, `fallocate`.

use crate::record::Record;
use crate::reply::Reply;
use crate::serve::{self, serve};
use crate::{errno, real, settings, table};
use egeria_fs::{AllocateMode, AttributeChange, Errno};
use libc::{c_int, off_t};

/// Change an open file, when the kernel need not: it checks limits, and whether these bits stay is a matter of rights.
/// `None`: the kernel is to do it.
fn changed(record: &Record, change: impl FnOnce() -> Result<(), Errno>) -> Option<()> {
    const SETID: u32 = libc::S_ISUID | libc::S_ISGID;
    if !record.is_writable() || settings::file_size_limited() {
        return None;
    }
    let volume = record.volume();
    if volume.attributes(record.ino()).ok()?.mode & SETID != 0 {
        return None;
    }
    volume.drop_capability(record.file()).ok()?;
    change().ok()
}

fn reply(changed: Option<()>) -> Reply {
    match changed {
        Some(()) => Reply::Direct(0),
        None => Reply::Pass,
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
        let change = AttributeChange {
            size_bytes: Some(bytes),
            ..AttributeChange::default()
        };
        let (volume, ino) = (record.volume(), record.ino());
        reply(changed(record, || {
            let changed = volume.set_attributes_direct(ino, &change, false);
            changed.map(drop)
        }))
    };
    serve(fd, truncate).map_or_else(|| real::ftruncate(fd, bytes), |value| value as c_int)
}

fn mode_of(mode: c_int) -> Option<AllocateMode> {
    const PUNCH_HOLE: c_int = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    const ZERO_RANGE_KEEP_SIZE: c_int = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
    Some(match mode {
        0 => AllocateMode::Extend,
        libc::FALLOC_FL_KEEP_SIZE => AllocateMode::KeepSize,
        PUNCH_HOLE => AllocateMode::PunchHole,
        libc::FALLOC_FL_ZERO_RANGE => AllocateMode::ZeroRange,
        ZERO_RANGE_KEEP_SIZE => AllocateMode::ZeroRangeKeepSize,
        _ => return None,
    })
}

/// `None`: the kernel is to do it.
fn allocated(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> Option<()> {
    let mode = mode_of(mode);
    let allocate = |record: &Record| {
        let (Some(mode), Ok(offset), Ok(bytes)) =
            (mode, u64::try_from(offset), u64::try_from(bytes))
        else {
            return Reply::Pass;
        };
        let (volume, file) = (record.volume(), record.file());
        reply(changed(record, || {
            volume.allocate_direct(file, offset, bytes, mode)
        }))
    };
    serve(fd, allocate).filter(|value| *value == 0).map(drop)
}

fn fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int {
    if table::load(fd).is_ours() && allocated(fd, mode, offset, bytes).is_some() {
        return 0;
    }
    match serve::try_open_in_kernel(fd) {
        Ok(()) => real::fallocate(fd, mode, offset, bytes),
        Err(errno) => {
            errno::set(errno);
            -1
        }
    }
}

/// Returns an error number; never sets `errno`.
fn posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int {
    if table::load(fd).is_ours() && allocated(fd, 0, offset, bytes).is_some() {
        return 0;
    }
    match serve::try_open_in_kernel(fd) {
        Ok(()) => real::posix_fallocate(fd, offset, bytes),
        Err(errno) => errno,
    }
}

export! {
    ftruncate, ftruncate64 => ftruncate(fd: c_int, bytes: off_t) -> c_int;
    fallocate, fallocate64 => fallocate(fd: c_int, mode: c_int, offset: off_t, bytes: off_t) -> c_int;
    posix_fallocate, posix_fallocate64 => posix_fallocate(fd: c_int, offset: off_t, bytes: off_t) -> c_int;
}
