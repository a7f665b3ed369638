//! Where `read`, `write` and `lseek` are in a file (design: Front ends, Offsets).
//!
//! The truth is the kernel's position, read and set by `lseek` under the lock of the description's
//! slot in the session, so that every process that shares the description takes part. Only a
//! description that this process opened and that nobody else can hold keeps its offset here; it is
//! published to the kernel when that ends, and stays there.

use crate::record::{PASS, Record};
use crate::serve::{self, Reply};
use crate::table::{self, Tag};
use crate::{process, raw};
use egeria_fs::Outcome;
use libc::c_int;
use std::sync::atomic::Ordering;

/// What a call at the position does: where the position is afterwards, and the call's value.
pub type Moved = Outcome<(u64, usize)>;

/// Run a call at the description's position: `direct` at a given offset, or `kernel`, which moves
/// the kernel's position itself, when `direct` says [`PASS`].
#[inline(always)]
pub fn moving(
    record: &Record,
    fd: c_int,
    mut direct: impl FnMut(u64) -> Moved,
    kernel: impl FnOnce() -> isize,
) -> Reply {
    if record.offset_is_private.load(Ordering::Acquire)
        && let Some(reply) = moving_private(record, fd, &mut direct)
    {
        return reply;
    }
    moving_in_kernel(record, fd, direct, kernel)
}

/// `None`: the offset is in the kernel (now).
#[inline(always)]
fn moving_private(
    record: &Record,
    fd: c_int,
    direct: &mut impl FnMut(u64) -> Moved,
) -> Option<Reply> {
    record.offset_lock.with(|| {
        if !record.offset_is_private.load(Ordering::Relaxed) {
            return None;
        }
        // SAFETY: under the offset's lock.
        let offset_bytes = unsafe { &mut *record.offset_bytes.get() };
        match direct(*offset_bytes) {
            Ok((after, value)) => {
                *offset_bytes = after;
                Some(Reply::Direct(value as isize))
            }
            Err(PASS) => {
                publish_locked(record, fd);
                None
            }
            Err(error) => Some(Reply::Direct(-error.0 as isize)),
        }
    })
}

fn moving_in_kernel(
    record: &Record,
    fd: c_int,
    mut direct: impl FnMut(u64) -> Moved,
    kernel: impl FnOnce() -> isize,
) -> Reply {
    let Some(slot) = record.slot else {
        return Reply::Pass;
    };
    record.volume().description_locked(slot, || {
        let position = raw::lseek(fd, 0, libc::SEEK_CUR);
        if position < 0 {
            return Reply::Kernel(kernel());
        }
        match direct(position as u64) {
            Ok((after, value)) => {
                if after != position as u64 {
                    raw::lseek(fd, after as i64, libc::SEEK_SET);
                }
                Reply::Direct(value as isize)
            }
            Err(PASS) => Reply::Kernel(kernel()),
            Err(error) => Reply::Direct(-error.0 as isize),
        }
    })
}

fn publish_locked(record: &Record, fd: c_int) {
    // SAFETY: under the offset's lock.
    let offset_bytes = unsafe { *record.offset_bytes.get() };
    raw::lseek(fd, offset_bytes as i64, libc::SEEK_SET);
    record.offset_is_private.store(false, Ordering::Release);
}

/// The record's offset goes to the kernel, for good.
pub fn publish_record(record: &Record, fd: c_int) {
    if record.offset_is_private.load(Ordering::Acquire) {
        record.offset_lock.with(|| {
            if record.offset_is_private.load(Ordering::Relaxed) {
                publish_locked(record, fd);
            }
        });
    }
}

/// The number's offset goes to the kernel, which is about to use it; it also gets none later.
pub fn publish(fd: c_int) {
    let word = table::load(fd);
    if word.is_ours() {
        return serve::quietly(fd, |record| publish_record(record, fd));
    }
    let unknown = word.learned(Tag::Unknown, std::ptr::null_mut());
    if word.tag() == Tag::Fresh && process::owns_tables() && !table::replace(fd, word, unknown) {
        publish(fd);
    }
}

/// As [`publish`], and other processes may get the description.
pub fn share(fd: c_int) {
    publish(fd);
    if table::load(fd).is_ours() {
        serve::quietly(fd, Record::mark_shared);
    }
}

/// All descriptors of this process become shared.
pub fn publish_all() {
    table::for_each_ours(|fd, _| share(fd));
}
