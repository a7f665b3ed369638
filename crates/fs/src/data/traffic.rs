//! What one read or write moved, pool by pool.

use crate::format::MAX_POOLS;

/// Bytes that came from each pool, of one read or write.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traffic {
    pub(crate) bytes: [u64; MAX_POOLS],
    /// Bit per pool with bytes.
    pub(crate) pools: u16,
}

impl Traffic {
    pub(crate) fn add(&mut self, pool: u8, bytes: u64) {
        let pool = pool as usize & (MAX_POOLS - 1);
        self.bytes[pool] += bytes;
        self.pools |= 1 << pool;
    }
}
