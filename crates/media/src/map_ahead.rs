//! Pages that are stored to soon, mapped by one call instead of a fault each: on tmpfs a process that fills fresh
//! blocks spends more time in faults than in copies.

use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::race::OnceBox;
use rustix::mm::Advice;

use crate::address::PoolOffset;
use crate::map::Persistence;
use crate::pool::Pool;
use crate::protection::Open;

/// Pages are mapped by pieces of this size, each once in a process.
const PIECE_BYTES: u64 = 256 << 10;

/// The pieces of a pool that this process has asked for, a bit each. One that the kernel took away since, or that a
/// parent of this process asked for, is mapped by faults.
#[derive(Default)]
pub(crate) struct MappedPieces(OnceBox<Box<[AtomicU64]>>);

impl MappedPieces {
    /// Whether this is the first to ask for the piece of a pool of `bytes`.
    fn is_first(&self, piece: u64, bytes: u64) -> bool {
        let words = bytes.div_ceil(PIECE_BYTES).div_ceil(64);
        let all = || Box::new((0..words).map(|_| AtomicU64::new(0)).collect());
        let (word, bit) = (
            &self.0.get_or_init(all)[(piece / 64) as usize],
            1 << (piece % 64),
        );
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}

impl Pool {
    /// Has the kernel map the pages around a range that is stored to soon. No more than a hint: no byte changes, what
    /// the kernel refuses is mapped by faults, and parts outside the pool are ignored. Does nothing where it would read
    /// or dirty pages of a disk, or copy them for this process.
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
        // The kernel heeds the rights of the thread's protection keys.
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
