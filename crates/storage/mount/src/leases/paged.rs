//! How much file data the kernel may keep in its page cache. The kernel frees these pages when it needs memory, but no
//! process should have to wait for that, and the files are in memory already.

use egeria_engine::InodeNumber;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// One file may use this part of the limit.
const PART_OF_FILE: u64 = 4;
/// The list is not cleaned of files without pages until it has this many entries.
const MIN_LISTED: usize = 4096;

/// Files in the order in which the kernel got pages of them, and the bytes of all.
pub(super) struct Paged {
    max_bytes: u64,
    bytes: AtomicU64,
    files: Mutex<VecDeque<InodeNumber>>,
}

impl Paged {
    /// With a limit of 0 no pages are kept.
    pub(super) fn new(max_bytes: u64) -> Paged {
        Paged {
            max_bytes,
            bytes: AtomicU64::new(0),
            files: Mutex::default(),
        }
    }

    /// Whether a file of this size may be kept at all.
    pub(super) fn has_room_for(&self, bytes: u64) -> bool {
        self.max_bytes > 0 && bytes <= self.max_bytes / PART_OF_FILE
    }

    /// Count a file's bytes. `is_kept`: whether the pages of an earlier file are still kept.
    pub(super) fn add(&self, ino: InodeNumber, bytes: u64, is_kept: impl Fn(InodeNumber) -> bool) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if files.len() >= MIN_LISTED && files.len() == files.capacity() {
            files.retain(|file| is_kept(*file));
        }
        files.push_back(ino);
    }

    /// Count the bytes of a file from [`Paged::next_too_much`] again.
    pub(super) fn put_back(&self, ino: InodeNumber, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.push_front(ino);
    }

    /// Stop counting bytes of a file whose pages are gone, or about to be dropped.
    pub(super) fn take(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The next file to drop pages of, if the limit is exceeded.
    pub(super) fn next_too_much(&self) -> Option<InodeNumber> {
        if self.bytes.load(Ordering::Relaxed) <= self.max_bytes {
            return None;
        }
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.pop_front()
    }
}
