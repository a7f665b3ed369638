//! Maps pages before they are stored to, by one call instead of one fault each: on tmpfs a process that fills fresh
//! blocks spends more time in faults than in copies.

use rustix::mm::Advice;

use crate::address::PoolOffset;
use crate::map::Persistence;
use crate::mapped_pieces::PIECE_BYTES;
use crate::pool::Pool;
use crate::protection::Open;

impl Pool {
    /// Asks the kernel to map the pages around a range that will be stored to soon. Only a hint: no byte changes,
    /// pages that the kernel refuses are mapped by faults, and parts outside the pool are ignored. Does nothing where
    /// it would read or dirty pages of a disk, or copy pages for this process.
    pub fn map_ahead(&self, at: PoolOffset, bytes: u64) {
        let end = at.0.saturating_add(bytes).min(self.bytes());
        let is_memory = self.persistence() != Persistence::PageCache && self.backing().is_none();
        if at.0 >= end || !is_memory || !self.takes_stores() {
            return;
        }
        let pieces = at.0 / PIECE_BYTES..end.div_ceil(PIECE_BYTES);
        let mut fresh = pieces.filter(|piece| self.mapped_pieces.is_first(*piece, self.bytes()));
        let Some(mut first) = fresh.next() else {
            return;
        };
        // The kernel respects the rights of the thread's protection keys.
        let _open = self.is_protected().then(Open::begin);
        let mut last = first;
        for piece in fresh {
            if piece != last + 1 {
                self.populate(first, last);
                first = piece;
            }
            last = piece;
        }
        self.populate(first, last);
    }

    fn populate(&self, first: u64, last: u64) {
        let start = first * PIECE_BYTES;
        let bytes = ((last + 1) * PIECE_BYTES).min(self.bytes()) - start;
        let address = self.address(PoolOffset(start)).cast();
        // SAFETY: inside the mapping, which this pool keeps; changes no byte.
        let _ = unsafe { rustix::mm::madvise(address, bytes as usize, Advice::LinuxPopulateWrite) };
    }
}
