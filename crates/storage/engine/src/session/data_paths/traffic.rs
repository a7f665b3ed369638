//! Bytes that one read or write moved, per pool.

use crate::format::MAX_POOLS;

/// Bytes from each pool, of one read or write.
#[derive(Clone, Copy, Default)]
pub(crate) struct Traffic {
    bytes: [u64; MAX_POOLS],
    /// Bit per pool with bytes.
    pools: u16,
}

impl Traffic {
    /// Bytes of one pool.
    pub(crate) fn of(pool: u8, bytes: u64) -> Traffic {
        let mut traffic = Traffic::default();
        traffic.add(pool, bytes);
        traffic
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, pool: u8, bytes: u64) {
        let pool = pool as usize & (MAX_POOLS - 1);
        self.bytes[pool] += bytes;
        self.pools |= 1 << pool;
    }

    /// Pools with bytes, and how many.
    pub(crate) fn by_pool(self) -> impl Iterator<Item = (usize, u64)> {
        let mut pools = self.pools;
        std::iter::from_fn(move || {
            let pool = (pools != 0).then(|| pools.trailing_zeros() as usize)?;
            pools &= pools - 1;
            Some((pool, self.bytes[pool]))
        })
    }
}
