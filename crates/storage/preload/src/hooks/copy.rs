//! `copy_file_range` and `sendfile`: from and to files of ours without the kernel's page cache, which
//! would mark the inode kernel-cached and slow down everybody.
//!
//! Between a file of ours and one of another kind of file system the kernel does not copy (`EXDEV`), and programs then do it
//! with a buffer of their own for each file; here it is done at once.

use super::map::hand_over;
use super::refusal::{is_copy_refused, status_in_kernel};
use super::{dup_close, write};
use crate::description::record::{MAX_BYTES, Record, is_beyond};
use crate::description::reply::{PASS, Reply};
use crate::descriptors::{table, writing};
use crate::serve::{self, guarded, serve};
use crate::system::{errno, raw, real};
use crate::thread;
use crate::trust::{Place, settings};
use egeria_engine::{Errno, Outcome};
use libc::{c_int, c_uint, c_void, off_t, size_t, ssize_t};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

const CHUNK_BYTES: usize = 256 << 10;

/// A buffer that no call uses: who copies many small files need not have one made, and its pages, for each.
static SPARE: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Memory for one call, from the kernel: nothing here may unwind past a destructor.
struct Buffer(*mut u8);

impl Buffer {
    fn make() -> Option<Buffer> {
        let spare = SPARE.swap(null_mut(), Ordering::Acquire);
        if spare.is_null() {
            raw::map(CHUNK_BYTES).map(Buffer)
        } else {
            Some(Buffer(spare))
        }
    }

    fn give_back(self) {
        let kept = SPARE.compare_exchange(null_mut(), self.0, Ordering::Release, Ordering::Relaxed);
        if kept.is_err() {
            raw::munmap(self.0, CHUNK_BYTES);
        }
    }
}

/// Look at a position that is kept here; `None`: it is in the kernel.
fn private_offset<T>(fd: c_int, look: impl FnOnce(&mut u64) -> T) -> Option<T> {
    let mut seen = None;
    serve::quietly(fd, |record| {
        seen = record.offset.with(look);
    });
    seen
}

/// Where a side of the copy is: told by the caller, or the description's position. `None`: the kernel
/// finds the error, a bad address among them.
fn offset_of(fd: c_int, given: *mut off_t, bytes: usize) -> Option<u64> {
    let at = if given.is_null() {
        match private_offset(fd, |offset_bytes| *offset_bytes) {
            Some(offset_bytes) => offset_bytes as off_t,
            None => {
                serve::publish(fd);
                raw::lseek(fd, 0, libc::SEEK_CUR) as off_t
            }
        }
    } else {
        guarded::fetch(fd, given).filter(|&at| guarded::store(fd, given, at))?
    };
    u64::try_from(at).ok().filter(|&at| !is_beyond(at, bytes))
}

/// The same of a side that is no file of ours; `ours` is the other side.
fn offset_elsewhere(ours: c_int, fd: c_int, given: *mut off_t, bytes: usize) -> Option<u64> {
    let at = if given.is_null() {
        raw::lseek(fd, 0, libc::SEEK_CUR) as off_t
    } else {
        guarded::fetch(ours, given).filter(|&at| guarded::store(ours, given, at))?
    };
    u64::try_from(at).ok().filter(|&at| !is_beyond(at, bytes))
}

fn store_offset_elsewhere(ours: c_int, fd: c_int, given: *mut off_t, at: u64) {
    if given.is_null() {
        _ = raw::lseek(fd, at as i64, libc::SEEK_SET)
    } else {
        _ = guarded::store(ours, given, at as off_t)
    }
}

fn store_offset(fd: c_int, given: *mut off_t, at: u64) {
    if given.is_null() {
        if private_offset(fd, |offset_bytes| *offset_bytes = at).is_none() {
            raw::lseek(fd, at as i64, libc::SEEK_SET);
        }
    } else {
        _ = guarded::store(fd, given, at as off_t)
    }
}

/// One engine call on a descriptor; `None` when it is to be passed on.
fn one(fd: c_int, mut body: impl FnMut(&Record) -> Outcome<usize>) -> Option<Outcome<usize>> {
    let mut answer = None;
    serve(fd, |record| match body(record) {
        Err(PASS) => Reply::Pass,
        outcome => {
            answer = Some(outcome);
            Reply::Done(0)
        }
    });
    answer
}

/// Both of ours, and such that the engine may do what the kernel would.
fn may_copy(from: c_int, to: c_int) -> bool {
    let mut source: *const Record = std::ptr::null();
    let mut fits = false;
    serve(from, |record| {
        if record.is_readable() {
            source = record;
        }
        Reply::Done(0)
    });
    serve(to, |record| {
        // SAFETY: only compared while `from` is open; a stale one is found different or refused.
        let other = unsafe { source.as_ref() };
        fits = other.is_some_and(|source| {
            record.is_writable() && !record.appends(to) && !record.same_file(source)
        });
        Reply::Done(0)
    });
    fits
}

fn copy_file_range(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    bytes: size_t,
    flags: c_uint,
) -> ssize_t {
    let pass = || {
        hand_over(from);
        hand_over(to);
        real::copy_file_range(from, from_at, to, to_at, bytes, flags)
    };
    if flags != 0 || thread::current().has(thread::INSIDE) {
        return pass();
    }
    if is_copy_refused(from, from_at, to, to_at) {
        return across(from, from_at, to, to_at, bytes).unwrap_or_else(|| {
            errno::set(libc::EXDEV);
            -1
        });
    }
    if !may_copy(from, to) {
        return pass();
    }
    let sides = (offset_of(from, from_at, bytes), offset_of(to, to_at, bytes));
    let (Some(source), Some(target)) = sides else {
        return pass();
    };
    let Some(buffer) = Buffer::make() else {
        return pass();
    };
    let outcome = copy(from, source, to, target, bytes.min(MAX_BYTES), &buffer);
    buffer.give_back();
    match outcome {
        None => pass(),
        Some(Ok(done)) => {
            store_offset(from, from_at, source + done as u64);
            store_offset(to, to_at, target + done as u64);
            done as ssize_t
        }
        Some(Err(error)) => {
            errno::set(error.0);
            -1
        }
    }
}

/// Between a file of ours that the kernel has not opened and a regular file of another kind of file system. `None`: the kernel's
/// refusal is the answer, and whoever asked copies by itself.
fn across(
    from: c_int,
    from_at: *mut off_t,
    to: c_int,
    to_at: *mut off_t,
    bytes: usize,
) -> Option<ssize_t> {
    let into_ours = serve::is_deferred(to);
    let (ours, other) = if into_ours { (to, from) } else { (from, to) };
    // Files that are made up when they are read say that they are empty, and may not be read twice.
    if into_ours && raw::facts_of(other)?.st_size <= 0 {
        return None;
    }
    let position = |fd: c_int, given: *mut off_t| {
        if fd == ours {
            offset_of(fd, given, bytes)
        } else {
            offset_elsewhere(ours, fd, given, bytes)
        }
    };
    let (source, target) = (position(from, from_at)?, position(to, to_at)?);
    let buffer = Buffer::make()?;
    let of_kernel = |answer: isize| usize::try_from(answer).map_err(|_| Errno(-answer as c_int));
    let (mut done, mut is_at_end) = (0, bytes == 0);
    while done < bytes.min(MAX_BYTES) {
        let chunk = CHUNK_BYTES.min(bytes - done);
        let (source, target) = (source + done as u64, target + done as u64);
        let read = if into_ours {
            let got = raw::pread(other, buffer.0.cast(), chunk, source as i64);
            Some(of_kernel(got))
        } else {
            one(from, |record| record.read_at(source, buffer.0, chunk))
        };
        let Some(Ok(got)) = read else {
            break;
        };
        if got == 0 {
            is_at_end = true;
            break;
        }
        let written = if into_ours {
            one(to, |record| {
                writing::write_at(record, target, buffer.0, got)
            })
        } else {
            let put = raw::pwrite(other, buffer.0.cast::<c_void>(), got, target as i64);
            Some(of_kernel(put))
        };
        match written {
            Some(Ok(put @ 1..)) => done += put,
            _ => break,
        }
    }
    buffer.give_back();
    if done == 0 && !is_at_end {
        // Whoever asked copies by itself and finds the error.
        return None;
    }
    let keep = |fd: c_int, given: *mut off_t, at: u64| {
        if fd == ours {
            store_offset(fd, given, at)
        } else {
            store_offset_elsewhere(ours, fd, given, at)
        }
    };
    keep(from, from_at, source + done as u64);
    keep(to, to_at, target + done as u64);
    Some(done as ssize_t)
}

/// Copy until the end, the count, or an error. An error, or a call to be passed on, after something
/// was copied is a short count.
fn copy(
    from: c_int,
    source: u64,
    to: c_int,
    target: u64,
    bytes: usize,
    buffer: &Buffer,
) -> Option<Outcome<usize>> {
    let mut done = 0;
    while done < bytes {
        let chunk = CHUNK_BYTES.min(bytes - done);
        let read = one(from, |record| {
            record.read_at(source + done as u64, buffer.0, chunk)
        });
        let step = match read {
            Some(Ok(0)) => break,
            Some(Ok(got)) => one(to, |record| {
                writing::write_at(record, target + done as u64, buffer.0, got)
            }),
            other => other,
        };
        match step {
            Some(Ok(got)) => done += got,
            other if done == 0 => return other,
            _ => break,
        }
    }
    Some(Ok(done))
}

fn sendfile(to: c_int, from: c_int, from_at: *mut off_t, bytes: size_t) -> ssize_t {
    let pass = || {
        hand_over(from);
        hand_over(to);
        real::sendfile(to, from, from_at, bytes)
    };
    if settings::is_off() {
        return pass();
    }
    if thread::current().has(thread::INSIDE) {
        return pass();
    }
    let to_deferred = dup_close::status_of_deferred(to);
    // The kernel finds the error, also when there is nothing to send.
    let may_send = to_deferred
        .or_else(|| status_in_kernel(to))
        .is_some_and(|status| {
            matches!(status & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
                && status & (libc::O_PATH | libc::O_APPEND) == 0
        });
    if !may_send || from == to {
        return pass();
    }
    if !is_readable(from) {
        if to_deferred.is_some() {
            return receive(to, from, from_at, bytes).unwrap_or_else(pass);
        }
        return pass();
    }
    let Some(source) = offset_of(from, from_at, bytes) else {
        return pass();
    };
    let Some(buffer) = Buffer::make() else {
        return pass();
    };
    let outcome = send(to, source, bytes.min(MAX_BYTES), &buffer, |at, chunk| {
        one(from, |record| record.read_at(at, buffer.0, chunk))
    });
    buffer.give_back();
    let Some(done) = outcome else { return pass() };
    if done >= 0 {
        store_offset(from, from_at, source + done as u64);
    }
    done
}

fn is_readable(fd: c_int) -> bool {
    let mut readable = false;
    if table::load(fd).tag() != table::Tag::NotOurs {
        serve(fd, |record| {
            readable = record.is_readable();
            Reply::Done(0)
        });
    }
    readable
}

/// From a file of another file system to one of ours that the kernel has not opened. `None`: the kernel is to do it.
fn receive(to: c_int, from: c_int, from_at: *mut off_t, bytes: usize) -> Option<ssize_t> {
    let place = Place::of_regular_file(from)?;
    let refused = libc::O_PATH | libc::O_DIRECT;
    // Files that are made up when they are read may have no way to be sent.
    let is_plain = place.is_no_fuse(from)
        && status_in_kernel(from).is_some_and(|status| status & refused == 0)
        && raw::facts_of(from).is_some_and(|facts| facts.st_size > 0);
    if !is_plain {
        return None;
    }
    let source = offset_elsewhere(to, from, from_at, bytes)?;
    let buffer = Buffer::make()?;
    let outcome = send(to, source, bytes.min(MAX_BYTES), &buffer, |at, chunk| {
        let got = raw::pread(from, buffer.0.cast(), chunk, at as i64);
        Some(usize::try_from(got).map_err(|_| Errno(-got as c_int)))
    });
    buffer.give_back();
    if let Some(done @ 0..) = outcome {
        store_offset_elsewhere(to, from, from_at, source + done as u64);
    }
    outcome
}

/// Send chunk by chunk what `read` puts into the buffer; what the other side did not take counts as not read.
fn send(
    to: c_int,
    source: u64,
    bytes: usize,
    buffer: &Buffer,
    read: impl Fn(u64, usize) -> Option<Outcome<usize>>,
) -> Option<ssize_t> {
    let mut done = 0;
    while done < bytes {
        let chunk = CHUNK_BYTES.min(bytes - done);
        let got = match read(source + done as u64, chunk) {
            Some(Ok(0)) => break,
            Some(Ok(got)) => got,
            Some(Err(error)) if done == 0 => {
                errno::set(error.0);
                return Some(-1);
            }
            None if done == 0 => return None,
            _ => break,
        };
        let sent = write::write_uncancelled(to, buffer.0.cast::<c_void>(), got);
        if sent < 0 && done == 0 {
            return Some(-1);
        }
        done += sent.max(0) as usize;
        if sent < got as ssize_t {
            break;
        }
    }
    Some(done as ssize_t)
}

export! {
    copy_file_range => copy_file_range(from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, bytes: size_t, flags: c_uint) -> ssize_t;
    sendfile, sendfile64 => sendfile(to: c_int, from: c_int, from_at: *mut off_t, bytes: size_t) -> ssize_t;
}
