//! Files of which this process has locked ranges (`fcntl`, `lockf`). The kernel drops such locks when the process closes any
//! of its descriptors of the file: so it must have them all, and those to come.
//!
//! ```text
//! locker: file into the list ─ numbers in the table? those of the file: to the kernel ─ lock
//! opener: number into the table ─ file in the list? then to the kernel
//! ```
//! One of both sees the other.

use crate::record::Record;
use crate::reply::Reply;
use crate::{deferred, serve, table};
use egeria_fs::{InodeNumber, Volume};
use libc::c_int;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// A process that locks more files has all files opened in the kernel.
const MAX_FILES: usize = 64;

static FILES: [AtomicU64; MAX_FILES] = [const { AtomicU64::new(0) }; MAX_FILES];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Stands for a file, not 0. Two files may have the same: then both go to the kernel.
fn key(volume: &'static Volume, ino: InodeNumber) -> u64 {
    let volume = std::ptr::from_ref(volume) as u64;
    (ino.0 ^ volume.rotate_left(32)) | 1 << 63
}

fn key_of(record: &Record) -> u64 {
    key(record.volume(), record.ino())
}

/// The process is about to lock ranges of the file of a number.
pub fn note(fd: c_int) {
    let mut found = None;
    // Also of a number that no call has used yet.
    serve::serve(fd, |record| {
        found = Some(key_of(record));
        Reply::Pass
    });
    let Some(key) = found else { return };
    if !add(key) {
        return deferred::end();
    }
    fence(Ordering::SeqCst);
    table::for_each_ours(|other, _| {
        serve::quietly(other, |record| {
            if key_of(record) == key {
                // Where that fails, the lock does, too.
                let _ = deferred::open_in_kernel(record, other);
            }
        });
    });
}

/// `false`: there is no room.
fn add(key: u64) -> bool {
    for (index, place) in FILES.iter().enumerate() {
        let taken = place.compare_exchange(0, key, Ordering::SeqCst, Ordering::SeqCst);
        if taken.is_ok() || taken == Err(key) {
            COUNT.fetch_max(index + 1, Ordering::SeqCst);
            return true;
        }
    }
    false
}

/// A number means this file from now on.
#[inline]
pub fn settle(volume: &'static Volume, ino: InodeNumber, fd: c_int) {
    let count = COUNT.load(Ordering::SeqCst);
    if count != 0 {
        settle_beside(key(volume, ino), fd, count);
    }
}

#[cold]
fn settle_beside(key: u64, fd: c_int, count: usize) {
    let is_it = |place: &AtomicU64| place.load(Ordering::SeqCst) == key;
    if FILES[..count].iter().any(is_it) {
        serve::open_in_kernel(fd);
    }
}
