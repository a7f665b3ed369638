//! `write` and `pwrite`.

use super::map::kernel_size;
use super::read::is_excessive;
use crate::description::record::Record;
use crate::description::reply::Reply;
use crate::descriptors::offset::{self, Taking};
use crate::descriptors::{table, writing};
use crate::serve::{self, serve, serve_cancellable, serve_quickly};
use crate::system::{errno, raw, real};
use crate::thread;
use libc::{c_int, c_void, off_t, size_t, ssize_t};

/// Write at the position, or at the end when the description appends.
pub(super) fn write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t {
    let at_position = |record: &Record, at: &mut u64| {
        if let Some(done) = writing::write_quickly(record, *at, buffer.cast(), bytes) {
            *at += done as u64;
            return Some(done);
        }
        *at = writing::append_quickly(record, buffer.cast(), bytes)? + bytes as u64;
        Some(bytes)
    };
    let quick = |record: &Record| {
        let done = record.offset.with(|at| at_position(record, at));
        done.flatten()
    };
    match serve_quickly(fd, quick) {
        Some(done) => done,
        None => write_carefully(fd, buffer, bytes),
    }
}

#[inline(never)]
fn write_carefully(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t {
    serve_cancellable(fd, |record| write_body(record, fd, buffer, bytes)).unwrap_or_else(|| {
        if thread::is_inside() {
            // The engine's own are no cancellation points.
            return errno::from_kernel(raw::write(fd, buffer, bytes));
        }
        let done = real::write(fd, buffer, bytes);
        after_append(fd, done);
        done
    })
}

/// The kernel wrote. Where that was an append, it must know how far the file goes now: others have it mapped.
fn after_append(fd: c_int, done: ssize_t) {
    if done <= 0 || !table::load(fd).is_ours() {
        return;
    }
    let mut appends = false;
    serve::quietly(fd, |record| appends = record.appends(fd));
    if appends {
        let error = errno::get();
        kernel_size(fd);
        errno::set(error);
    }
}

#[inline(always)]
fn write_body(record: &Record, fd: c_int, buffer: *const c_void, bytes: size_t) -> Reply {
    if !record.is_writable() || is_excessive(bytes) {
        return Reply::Pass;
    }
    if bytes == 0 {
        return Reply::Done(0);
    }
    let appends = record.appends(fd);
    let taking = if appends {
        Taking::Append
    } else {
        Taking::Write(bytes)
    };
    let direct = |at: u64, _| write_moving(record, appends, at, buffer.cast(), bytes);
    offset::moving(record, fd, taking, direct, || {
        if appends {
            // It takes the position from where it believes the file to end.
            kernel_size(fd);
        }
        let done = raw::write(fd, buffer, bytes);
        if appends && done > 0 {
            kernel_size(fd);
        }
        done
    })
}

/// As [`write`], for callers that hold something meanwhile: no cancellation point for files of ours,
/// and none of libc's for others.
pub(super) fn write_uncancelled(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t {
    if !table::load(fd).is_ours() {
        return errno::from_kernel(raw::write(fd, buffer, bytes));
    }
    serve(fd, |record| write_body(record, fd, buffer, bytes))
        .unwrap_or_else(|| errno::from_kernel(raw::write(fd, buffer, bytes)))
}

/// Where the position is after a write, and how much was written.
#[inline(always)]
pub(super) fn write_moving(
    record: &Record,
    appends: bool,
    at: u64,
    buffer: *const u8,
    bytes: usize,
) -> offset::Moved {
    let (start, done) = if appends {
        writing::append(record, buffer, bytes)?
    } else {
        (at, writing::write_at(record, at, buffer, bytes)?)
    };
    Ok((start + done as u64, done))
}

/// Write at an offset; as in Linux, an appending description appends all the same.
pub(super) fn pwrite(fd: c_int, buffer: *const c_void, bytes: size_t, offset: off_t) -> ssize_t {
    let quick = |record: &Record| match u64::try_from(offset) {
        Ok(offset_bytes) => writing::write_quickly(record, offset_bytes, buffer.cast(), bytes),
        Err(_) => None,
    };
    match serve_quickly(fd, quick) {
        Some(done) => done,
        None => pwrite_carefully(fd, buffer, bytes, offset),
    }
}

#[inline(never)]
fn pwrite_carefully(fd: c_int, buffer: *const c_void, bytes: size_t, offset: off_t) -> ssize_t {
    let body = |record: &Record| {
        if !record.is_writable() || is_excessive(bytes) || offset < 0 {
            return Reply::Pass;
        }
        if bytes == 0 {
            return Reply::Done(0);
        }
        Reply::from(if record.appends(fd) {
            writing::append(record, buffer.cast(), bytes).map(|(_, done)| done)
        } else {
            writing::write_at(record, offset as u64, buffer.cast(), bytes)
        })
    };
    serve_cancellable(fd, body).unwrap_or_else(|| real::pwrite(fd, buffer, bytes, offset))
}

export! {
    write, __write => write(fd: c_int, buffer: *const c_void, bytes: size_t) -> ssize_t;
    pwrite, pwrite64, __pwrite64 => pwrite(fd: c_int, buffer: *const c_void, bytes: size_t, offset: off_t) -> ssize_t;
}
