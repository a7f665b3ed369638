//! The pieces of a pool that this process has asked the kernel to map.

use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::race::OnceBox;

/// Pages are mapped by pieces of this size, each once in a process.
pub(crate) const PIECE_BYTES: u64 = 256 << 10;

/// The pieces of a pool that this process has asked for, a bit each. Pages that the kernel took away since, or pieces
/// that a parent process asked for, are mapped by faults.
#[derive(Default)]
pub(crate) struct MappedPieces(OnceBox<Box<[AtomicU64]>>);

impl MappedPieces {
    /// Whether this is the first request for a piece of a pool of `bytes`.
    pub(crate) fn is_first(&self, piece: u64, bytes: u64) -> bool {
        let words = bytes.div_ceil(PIECE_BYTES).div_ceil(64);
        let all = || Box::new((0..words).map(|_| AtomicU64::new(0)).collect());
        let (word, bit) = (
            &self.0.get_or_init(all)[(piece / 64) as usize],
            1 << (piece % 64),
        );
        word.load(Ordering::Relaxed) & bit == 0 && word.fetch_or(bit, Ordering::Relaxed) & bit == 0
    }
}
