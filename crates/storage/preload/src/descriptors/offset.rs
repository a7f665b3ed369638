//! Where `read`, `write` and `lseek` are in a file (docs/explanation/preload.md, "Positions").
//!
//! The truth is the kernel's position. Who shares the description may also be libc's own stdio, a
//! program without this library, or a static one: they move the position by `read` and `write` in the
//! kernel, which knows nothing of the lock of the description's slot. So a range is *taken* by one
//! `lseek(fd, bytes, SEEK_CUR)`, which the kernel does in one step against all of them, and what was
//! not used is given back; the lock of the slot keeps those who do this from each other's give-backs.
//!
//! Only a description that this process opened and that nobody else can hold keeps its offset here;
//! it is published to the kernel when that ends, and stays there.

use super::late_open;
use crate::description::record::{MAX_BYTES, Record, is_beyond};
use crate::description::reply::{PASS, Reply};
use crate::system::raw;
use egeria_engine::Outcome;
use libc::c_int;

/// What a call at the position does: where the position is afterwards, and the call's value.
pub type Moved = Outcome<(u64, usize)>;

/// How a call moves the position.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Taking {
    /// By at most so many bytes, not beyond the end.
    Read(usize),
    /// By at most so many bytes.
    Write(usize),
    Append,
    Nothing,
}

/// Run a call at the description's position: `direct` at a given offset, reading at most so much, or `kernel`, which moves
/// the kernel's position itself, when `direct` says [`PASS`].
#[inline(always)]
pub fn moving(
    record: &Record,
    fd: c_int,
    taking: Taking,
    mut direct: impl FnMut(u64, usize) -> Moved,
    kernel: impl FnOnce() -> isize,
) -> Reply {
    if let Some(reply) = moving_private(record, fd, &mut direct) {
        return reply;
    }
    let Some(slot) = record.slot() else {
        return Reply::Pass;
    };
    let moved = record.volume().description_locked(slot, || {
        if record.is_kernel_cached() {
            return Reply::Asked(kernel());
        }
        moving_in_kernel(record, fd, taking, direct).unwrap_or_else(|| Reply::Asked(kernel()))
    });
    moved.unwrap_or(Reply::Pass)
}

/// `None`: the offset is in the kernel (now).
#[inline(always)]
fn moving_private(
    record: &Record,
    fd: c_int,
    direct: &mut impl FnMut(u64, usize) -> Moved,
) -> Option<Reply> {
    let moved = record
        .offset
        .with(|offset_bytes| match direct(*offset_bytes, usize::MAX) {
            Ok((after, value)) => {
                *offset_bytes = after;
                Some(Reply::Done(value as isize))
            }
            Err(PASS) => {
                publish_locked(record, *offset_bytes, fd);
                None
            }
            Err(error) => Some(Reply::Fails(error.0)),
        });
    moved.flatten()
}

/// `None`: nothing was done, the kernel must.
fn moving_in_kernel(
    record: &Record,
    fd: c_int,
    taking: Taking,
    mut direct: impl FnMut(u64, usize) -> Moved,
) -> Option<Reply> {
    let taken = match taking {
        Taking::Read(bytes) => {
            let position = u64::try_from(raw::lseek(fd, 0, libc::SEEK_CUR)).ok()?;
            if is_beyond(position, bytes) {
                return None;
            }
            let left = record.size_bytes().ok()?.saturating_sub(position);
            match bytes
                .min(MAX_BYTES)
                .min(usize::try_from(left).unwrap_or(usize::MAX))
            {
                0 => return Some(Reply::Done(0)),
                taken => taken,
            }
        }
        Taking::Write(bytes) => bytes.min(MAX_BYTES),
        Taking::Append | Taking::Nothing => 0,
    };
    let end = u64::try_from(raw::lseek(fd, taken as i64, libc::SEEK_CUR)).ok()?;
    let position = end - taken as u64;
    let (used, reply) = match direct(position, taken) {
        Ok((after, value)) if taking == Taking::Append => {
            raw::lseek(fd, after as i64, libc::SEEK_SET);
            (0, Some(Reply::Done(value as isize)))
        }
        Ok((after, value)) => (after - position, Some(Reply::Done(value as isize))),
        Err(PASS) => (0, None),
        Err(error) => (0, Some(Reply::Fails(error.0))),
    };
    let unused = taken as i64 - used as i64;
    if unused != 0 {
        raw::lseek(fd, -unused, libc::SEEK_CUR);
    }
    reply
}

fn publish_locked(record: &Record, offset_bytes: u64, fd: c_int) {
    if record.is_deferred() && late_open::open_in_kernel(record, fd).is_err() {
        // The kernel refuses calls on the placeholder; there is no other way to say it.
        return;
    }
    raw::lseek(fd, offset_bytes as i64, libc::SEEK_SET);
    record.offset.end();
}

/// The record's offset goes to the kernel, for good.
pub fn publish_record(record: &Record, fd: c_int) {
    let publish = |offset_bytes: &mut u64| publish_locked(record, *offset_bytes, fd);
    let _ = record.offset.with(publish);
}
