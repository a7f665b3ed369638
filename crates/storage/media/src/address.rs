//! Typed positions in a pool, so that a block number cannot be confused with a byte offset.

use std::fmt;
use std::ops::Add;

/// Bytes of one block, the unit of allocation.
pub const BLOCK_BYTES: u64 = 4096;
/// Bytes of one cache line, the unit that reaches the media whole.
pub const CACHE_LINE_BYTES: u64 = 64;
/// Bytes of one huge page; pools are mapped at multiples of it.
pub const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Index of a pool in its volume.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct PoolIndex(pub u8);

/// Number of a block within a pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct BlockNumber(pub u64);

/// Byte offset within a pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct PoolOffset(pub u64);

impl BlockNumber {
    /// First byte of the block. Saturates: a block number read from media may
    /// be anything, and the saturated offset is out of every pool's bounds.
    #[inline]
    pub const fn offset(self) -> PoolOffset {
        PoolOffset(self.0.saturating_mul(BLOCK_BYTES))
    }
}

impl PoolOffset {
    /// The block that holds this byte.
    #[inline]
    pub const fn block(self) -> BlockNumber {
        BlockNumber(self.0 / BLOCK_BYTES)
    }

    /// Bytes between the beginning of the block and this byte.
    #[inline]
    pub const fn within_block(self) -> u64 {
        self.0 % BLOCK_BYTES
    }
}

impl Add<u64> for PoolOffset {
    type Output = PoolOffset;

    /// Saturates, so that invalid numbers from media end out of bounds and do not wrap around.
    #[inline]
    fn add(self, bytes: u64) -> PoolOffset {
        PoolOffset(self.0.saturating_add(bytes))
    }
}

impl fmt::Display for PoolIndex {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

impl fmt::Display for BlockNumber {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.0)
    }
}

impl fmt::Display for PoolOffset {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.0)
    }
}
