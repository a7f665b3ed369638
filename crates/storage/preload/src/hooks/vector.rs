//! `readv`, `writev`, and their forms with offsets and flags.
//!
//! One call is one operation of the engine (invariant 2), so several parts are gathered in, or
//! scattered from, one buffer of ours.

use super::write::write_moving;
use crate::description::record::Record;
use crate::description::reply::{PASS, Reply};
use crate::descriptors::offset::{self, Taking};
use crate::serve::serve_cancellable;
use crate::system::{guarded_copy, raw, real};
use egeria_engine::{Errno, Outcome};
use libc::{c_int, iovec, off_t, ssize_t};
use std::ptr;

/// The kernel's limit on parts (`UIO_MAXIOV`).
const MAX_PARTS: usize = 1024;
/// Larger calls with several parts go through the kernel, which splits them as well.
const MAX_GATHERED_BYTES: usize = 1 << 20;
/// Flags that ask for nothing a durable write does not give.
const NEEDLESS: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC;

/// What a call was given, copied in.
enum Parts {
    One(*mut u8, usize),
    Many(Vec<iovec>, usize),
}

impl Parts {
    fn bytes(&self) -> usize {
        match self {
            Parts::One(_, bytes) | Parts::Many(_, bytes) => *bytes,
        }
    }
}

/// Which way a call goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Read,
    Write,
}

/// A vector call.
#[derive(Clone, Copy)]
struct Call {
    fd: c_int,
    parts: *const iovec,
    count: c_int,
    /// `None`: at the position.
    at: Option<off_t>,
    flags: c_int,
    way: Way,
}

impl Call {
    /// At the position, without flags.
    fn new(way: Way, fd: c_int, parts: *const iovec, count: c_int) -> Call {
        Call {
            fd,
            parts,
            count,
            at: None,
            flags: 0,
            way,
        }
    }
}

fn fetch(call: &Call) -> Outcome<Parts> {
    let count = usize::try_from(call.count)
        .ok()
        .filter(|&count| count <= MAX_PARTS)
        .ok_or(PASS)?;
    let mut parts: Vec<iovec> = Vec::with_capacity(count);
    // SAFETY: room for `count`; the copy answers for bad addresses, else all of them are there.
    unsafe {
        let bytes = count * size_of::<iovec>();
        if !guarded_copy::copy(parts.as_mut_ptr().cast(), call.parts.cast(), bytes) {
            return Err(Errno(libc::EFAULT));
        }
        parts.set_len(count);
    }
    parts.retain(|part| part.iov_len > 0);
    let total = parts.iter().try_fold(0usize, |sum, part| {
        sum.checked_add(part.iov_len)
            .filter(|&sum| sum <= isize::MAX as usize)
    });
    match (total.ok_or(PASS)?, parts.as_slice()) {
        (_, []) => Ok(Parts::One(ptr::null_mut(), 0)),
        (_, [part]) => Ok(Parts::One(part.iov_base.cast(), part.iov_len)),
        (total, _) if total > MAX_GATHERED_BYTES => Err(PASS),
        (total, _) => Ok(Parts::Many(parts, total)),
    }
}

/// Move `parts` at an offset with `one`, which moves one buffer.
fn transfer<T>(
    way: Way,
    parts: &Parts,
    one: impl FnOnce(*mut u8, usize) -> Outcome<T>,
    moved: impl Fn(&T) -> usize,
) -> Outcome<T> {
    let (list, total) = match parts {
        Parts::One(buffer, bytes) => return one(*buffer, *bytes),
        Parts::Many(list, total) => (list, *total),
    };
    let mut gathered: Vec<u8> = Vec::with_capacity(total);
    let buffer = gathered.as_mut_ptr();
    if way == Way::Write
        && !walk(list, total, |part, at, bytes| {
            // SAFETY: `at + bytes` is at most `total`, the room of the buffer.
            unsafe { guarded_copy::copy(buffer.add(at), part, bytes) }
        })
    {
        return Err(Errno(libc::EFAULT));
    }
    let outcome = one(buffer, total)?;
    if way == Way::Read
        && !walk(list, moved(&outcome), |part, at, bytes| {
            // SAFETY: the program gave its parts to be written; a bad address answers false.
            unsafe { guarded_copy::copy(part, buffer.add(at), bytes) }
        })
    {
        return Err(Errno(libc::EFAULT));
    }
    Ok(outcome)
}

/// The first `bytes` of the parts, one after the other; false when `copy` said so.
fn walk(list: &[iovec], bytes: usize, copy: impl Fn(*mut u8, usize, usize) -> bool) -> bool {
    let mut at = 0;
    list.iter().all(|part| {
        let here = part.iov_len.min(bytes - at);
        let done = here == 0 || copy(part.iov_base.cast(), at, here);
        at += here;
        done
    })
}

fn serve_call(call: Call) -> Option<ssize_t> {
    serve_cancellable(call.fd, |record| {
        let allowed = match call.way {
            Way::Read => record.is_readable(),
            Way::Write => record.is_writable(),
        };
        let known = NEEDLESS
            | if call.way == Way::Write {
                libc::RWF_APPEND
            } else {
                0
            };
        if !allowed || call.flags & !known != 0 || call.at.is_some_and(|at| at < 0) {
            return Reply::Pass;
        }
        let parts = match fetch(&call) {
            Ok(Parts::One(_, 0)) => return Reply::Done(0),
            Ok(parts) => Some(parts),
            Err(PASS) => None,
            Err(error) => return Reply::Fails(error.0),
        };
        let appends = call.way == Way::Write
            && (call.flags & libc::RWF_APPEND != 0 || record.appends(call.fd));
        run(record, &call, parts.as_ref(), appends)
    })
}

/// `parts` is `None` when they are too many or too much for us.
fn run(record: &Record, call: &Call, parts: Option<&Parts>, appends: bool) -> Reply {
    let direct = |at: u64, most: usize| {
        let parts = parts.ok_or(PASS)?;
        let one = |buffer: *mut u8, bytes: usize| match call.way {
            Way::Read => record
                .read_at(at, buffer, bytes.min(most))
                .map(|done| (at + done as u64, done)),
            Way::Write => write_moving(record, appends, at, buffer, bytes),
        };
        transfer(call.way, parts, one, |&(_, done)| done)
    };
    if let Some(at) = call.at {
        return Reply::from(direct(at as u64, usize::MAX).map(|(_, done)| done));
    }
    let bytes = parts.map_or(0, Parts::bytes);
    let taking = match call.way {
        _ if parts.is_none() => Taking::Nothing,
        Way::Read => Taking::Read(bytes),
        Way::Write if appends => Taking::Append,
        Way::Write => Taking::Write(bytes),
    };
    offset::moving(record, call.fd, taking, direct, || in_kernel(call))
}

/// At the kernel's position, by the kernel.
fn in_kernel(call: &Call) -> isize {
    match call.way {
        Way::Read => raw::preadv2(call.fd, call.parts, call.count, -1, -1, call.flags),
        Way::Write => raw::pwritev2(call.fd, call.parts, call.count, -1, -1, call.flags),
    }
}

fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    serve_call(Call::new(Way::Read, fd, parts, count))
        .unwrap_or_else(|| real::readv(fd, parts, count))
}

fn writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    serve_call(Call::new(Way::Write, fd, parts, count))
        .unwrap_or_else(|| real::writev(fd, parts, count))
}

fn preadv(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    let call = Call::new(Way::Read, fd, parts, count);
    serve_call(Call {
        at: Some(at),
        ..call
    })
    .unwrap_or_else(|| real::preadv(fd, parts, count, at))
}

fn pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    let call = Call::new(Way::Write, fd, parts, count);
    serve_call(Call {
        at: Some(at),
        ..call
    })
    .unwrap_or_else(|| real::pwritev(fd, parts, count, at))
}

fn preadv2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
    let call = Call::new(Way::Read, fd, parts, count);
    serve_call(Call {
        at: (at != -1).then_some(at),
        flags,
        ..call
    })
    .unwrap_or_else(|| real::preadv2(fd, parts, count, at, flags))
}

fn pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
    let call = Call::new(Way::Write, fd, parts, count);
    serve_call(Call {
        at: (at != -1).then_some(at),
        flags,
        ..call
    })
    .unwrap_or_else(|| real::pwritev2(fd, parts, count, at, flags))
}

export! {
    readv => readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    writev => writev(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    preadv, preadv64 => preadv(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t;
    pwritev, pwritev64 => pwritev(fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t;
    preadv2, preadv64v2 => preadv2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t;
    pwritev2, pwritev64v2 => pwritev2(fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t;
}
