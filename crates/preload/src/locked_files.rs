//! Files of which this process has locked ranges (`fcntl`, `lockf`). The kernel drops such locks when the process closes any
//! of its descriptors of the file: so it must have them all, and those to come.

use crate::file_set::FileSet;
use crate::record::Record;
use crate::reply::Reply;
use crate::{deferred, serve, table};
use egeria_fs::{InodeNumber, Volume};
use libc::c_int;

static LOCKED: FileSet = FileSet::new();

/// Stands for a file, not 0. Two files may have the same: then both go to the kernel.
fn key(volume: &'static Volume, ino: InodeNumber) -> u32 {
    // Of the address, what tells two volumes apart.
    let volume = std::ptr::from_ref(volume) as u64 >> 6;
    (ino.0 ^ volume) as u32 | 1 << 31
}

fn key_of(record: &Record) -> u32 {
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
    if !LOCKED.add(key) {
        return deferred::end();
    }
    table::for_each_ours(|other, _| {
        serve::quietly(other, |record| {
            if key_of(record) == key {
                // Where that fails, the lock does, too.
                let _ = deferred::open_in_kernel(record, other);
            }
        });
    });
}

/// A number means this file from now on.
#[inline]
pub fn settle(volume: &'static Volume, ino: InodeNumber, fd: c_int) {
    if LOCKED.has(key(volume, ino)) {
        serve::open_in_kernel(fd);
    }
}
