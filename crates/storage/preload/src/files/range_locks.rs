//! Files of which this process locks ranges (`fcntl`, `lockf`). The kernel drops such locks when the process closes any of
//! its descriptors of the file: so it must have opened them all. Files that the kernel has open are opened there anyway, as
//! long as somebody has; what is left are descriptors from before, and those of threads that are just opening the file.
//!
//! ```text
//! locker: the kernel opens the file ─ heavy barrier ─ numbers in the table? those of the file: to the kernel ─ lock
//! opener: number into the table ─ light barrier ─ open in the kernel? then to the kernel
//! ```
//! One of both sees the other.

use crate::description::record::Record;
use crate::description::reply::Reply;
use crate::descriptors::{late_open, table};
use crate::serve;
use crate::sync::{heavy_barrier, light_barrier};
use egeria_engine::{InodeNumber, Volume};
use libc::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

/// The process has locked ranges of some file.
static HAS_LOCKED: AtomicBool = AtomicBool::new(false);

/// The process is about to lock ranges of the file of a number. Once is enough for a record: as long as it lives, the kernel has
/// the file open, and opens it for each later number.
#[inline]
pub fn note(fd: c_int) {
    let mut is_noted = false;
    serve::quietly(fd, |record| is_noted = record.locks_ranges());
    if is_noted {
        return;
    }
    HAS_LOCKED.store(true, Ordering::Relaxed);
    if open_all_of(fd) {
        serve::quietly(fd, Record::note_range_locks);
    }
}

/// Have the kernel open the file of a number under all numbers of this process. Returns whether it has opened it under all.
pub fn open_all_of(fd: c_int) -> bool {
    let file_of = |record: &Record| (std::ptr::from_ref(record.volume()), record.ino());
    let mut file = None;
    let mut are_open = true;
    // Also of a number that no call has used yet.
    serve::serve(fd, |record| {
        file = Some(file_of(record));
        // Where that fails, the lock does, too.
        are_open &= late_open::open_in_kernel(record, fd).is_ok();
        Reply::Pass
    });
    if file.is_none() {
        return false;
    }
    if !heavy_barrier() {
        late_open::end();
    }
    table::for_each_ours(|other, _| {
        serve::quietly(other, |record| {
            if Some(file_of(record)) == file {
                are_open &= late_open::open_in_kernel(record, other).is_ok();
            }
        });
    });
    are_open
}

/// A number means this file from now on.
#[inline]
pub fn settle(volume: &Volume, ino: InodeNumber, fd: c_int) {
    light_barrier();
    if HAS_LOCKED.load(Ordering::Relaxed) && volume.is_open_in_kernel(ino) {
        serve::open_in_kernel(fd);
    }
}
