//! Inodes that could not be locked in time.

use crate::session::layout::SessionInode;
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes that did not end in time, by inode and sequence: a hint, kept by each process.
#[derive(Default)]
pub(crate) struct Stuck([AtomicU64; 32]);

impl Stuck {
    fn place(&self, ino: u64, inode: &SessionInode) -> (&AtomicU64, u64) {
        let sequence = inode.sequence.load(Ordering::Acquire);
        let hash = ino.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let place = &self.0[(hash >> 59) as usize];
        // Sequences of changes in progress are odd, so never 0.
        (place, hash ^ sequence | 1)
    }

    pub(crate) fn is(&self, ino: u64, inode: &SessionInode) -> bool {
        let (place, key) = self.place(ino, inode);
        place.load(Ordering::Relaxed) == key
    }

    pub(crate) fn note(&self, ino: u64, inode: &SessionInode) {
        let (place, key) = self.place(ino, inode);
        place.store(key, Ordering::Relaxed);
    }
}
