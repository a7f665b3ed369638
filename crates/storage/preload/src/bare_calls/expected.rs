//! Whether the process may close or replace descriptors by calls that do not pass the library: by system call instructions of
//! its own, or by a libc that the library does not stand in front of. Then no number is believed to mean what it meant at the
//! last call: each call asks the kernel first.

use crate::description::record::Record;
use crate::system::raw;
use std::sync::atomic::{AtomicBool, Ordering};

static MAY_HAPPEN: AtomicBool = AtomicBool::new(false);

/// Whether numbers must be looked at before each call.
#[inline(always)]
pub fn may_happen() -> bool {
    MAY_HAPPEN.load(Ordering::SeqCst)
}

/// From now on; whether it was so before.
pub fn expect() -> bool {
    MAY_HAPPEN.swap(true, Ordering::SeqCst)
}

/// Whether a number means the file of a record, as far as the kernel says; it asks no file system.
pub fn means(fd: i32, record: &Record) -> bool {
    raw::facts_here(fd).is_some_and(|facts| {
        if record.is_deferred() {
            is_placeholder(&facts)
        } else {
            facts.stx_ino == record.ino().0 && record.place().is_on_device(&facts)
        }
    })
}

/// Whether a number is one of the library's placeholders: a memory file without a name and without any permission.
pub fn is_placeholder(facts: &libc::statx) -> bool {
    u32::from(facts.stx_mode) == libc::S_IFREG && facts.stx_nlink == 0
}
