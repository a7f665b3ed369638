//! `read`, `pread` and their fortified forms.

use crate::description::record::Record;
use crate::description::reply::Reply;
use crate::descriptors::offset::{self, Taking};
use crate::serve::{serve, serve_cancellable, serve_quickly};
use crate::system::{errno, raw, real};
use crate::thread;
use libc::{c_int, c_void, off_t, size_t, ssize_t};

/// Whether the kernel would refuse the count.
#[inline(always)]
pub(super) fn is_excessive(bytes: size_t) -> bool {
    (bytes as isize) < 0
}

/// Read at the position.
pub(super) fn read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t {
    let at_position = |record: &Record, at: &mut u64| {
        let done = record.read_quickly(*at, buffer.cast(), bytes)?;
        *at += done as u64;
        Some(done)
    };
    let quick = |record: &Record| {
        if record.is_readable() {
            record.offset.with(|at| at_position(record, at)).flatten()
        } else {
            None
        }
    };
    match serve_quickly(fd, quick) {
        Some(done) => done,
        None => read_carefully(fd, buffer, bytes),
    }
}

#[inline(never)]
fn read_carefully(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t {
    serve_cancellable(fd, |record| read_body(record, fd, buffer, bytes)).unwrap_or_else(|| {
        if thread::is_inside() {
            // The engine's own are no cancellation points.
            errno::from_kernel(raw::read(fd, buffer, bytes))
        } else {
            real::read(fd, buffer, bytes)
        }
    })
}

/// The same, for callers that hold something meanwhile: no cancellation point.
pub(super) fn read_uncancelled(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t {
    serve(fd, |record| read_body(record, fd, buffer, bytes))
        .unwrap_or_else(|| errno::from_kernel(raw::read(fd, buffer, bytes)))
}

#[inline(always)]
fn read_body(record: &Record, fd: c_int, buffer: *mut c_void, bytes: size_t) -> Reply {
    if !record.is_readable() || is_excessive(bytes) {
        return Reply::Pass;
    }
    let direct = |at: u64, most: usize| {
        let done = record.read_at(at, buffer.cast(), bytes.min(most))?;
        Ok((at + done as u64, done))
    };
    offset::moving(record, fd, Taking::Read(bytes), direct, || {
        raw::read(fd, buffer, bytes)
    })
}

/// Read at an offset.
pub(super) fn pread(fd: c_int, buffer: *mut c_void, bytes: size_t, offset: off_t) -> ssize_t {
    let quick = |record: &Record| {
        if record.is_readable() && offset >= 0 {
            record.read_quickly(offset as u64, buffer.cast(), bytes)
        } else {
            None
        }
    };
    match serve_quickly(fd, quick) {
        Some(done) => done,
        None => pread_carefully(fd, buffer, bytes, offset),
    }
}

#[inline(never)]
fn pread_carefully(fd: c_int, buffer: *mut c_void, bytes: size_t, offset: off_t) -> ssize_t {
    let body = |record: &Record| {
        if !record.is_readable() || is_excessive(bytes) || offset < 0 {
            return Reply::Pass;
        }
        Reply::from(record.read_at(offset as u64, buffer.cast(), bytes))
    };
    serve_cancellable(fd, body).unwrap_or_else(|| {
        if thread::is_inside() {
            errno::from_kernel(raw::pread(fd, buffer, bytes, offset))
        } else {
            real::pread(fd, buffer, bytes, offset)
        }
    })
}

fn read_checked(fd: c_int, buffer: *mut c_void, bytes: size_t, room: size_t) -> ssize_t {
    if bytes > room {
        return real::__read_chk(fd, buffer, bytes, room);
    }
    read(fd, buffer, bytes)
}

fn pread_checked(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    offset: off_t,
    room: size_t,
) -> ssize_t {
    if bytes > room {
        return real::__pread_chk(fd, buffer, bytes, offset, room);
    }
    pread(fd, buffer, bytes, offset)
}

export! {
    read, __read => read(fd: c_int, buffer: *mut c_void, bytes: size_t) -> ssize_t;
    pread, pread64, __pread64 => pread(fd: c_int, buffer: *mut c_void, bytes: size_t, offset: off_t) -> ssize_t;
    __read_chk => read_checked(fd: c_int, buffer: *mut c_void, bytes: size_t, room: size_t) -> ssize_t;
    __pread_chk, __pread64_chk => pread_checked(fd: c_int, buffer: *mut c_void, bytes: size_t, offset: off_t, room: size_t) -> ssize_t;
}
