//! A set of files to which a process only adds, and with which numbers are compared that begin to mean a file.
//!
//! ```text
//! adder:  file into the set ─ heavy barrier ─ numbers that mean it?
//! opener: number means the file ─ light barrier ─ file in the set?
//! ```
//! One of both sees the other.

use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{heavy_barrier, light_barrier};

/// Most files of a set.
const MAX_FILES: usize = 64;

/// Keys of files, which are not 0; after the last one, zeros.
pub struct FileSet([AtomicU32; MAX_FILES]);

impl FileSet {
    /// Empty.
    pub const fn new() -> FileSet {
        FileSet([const { AtomicU32::new(0) }; MAX_FILES])
    }

    /// Add a file: a number that meant it before is seen to do so after this, and who has a number mean it later sees it
    /// in the set. `false`: there is no room, or the kernel refused the barrier.
    pub fn add(&self, key: u32) -> bool {
        let is_added = self.0.iter().any(|place| {
            let taken = place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok() || taken == Err(key)
        });
        is_added && heavy_barrier()
    }

    /// Whether a file is in it. After a number began to mean the file.
    #[inline]
    pub fn has(&self, key: u32) -> bool {
        light_barrier();
        let keys = self.0.iter().map(|place| place.load(Ordering::Relaxed));
        keys.take_while(|found| *found != 0)
            .any(|found| found == key)
    }
}
