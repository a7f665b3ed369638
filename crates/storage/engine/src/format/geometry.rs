//! Where the regions of a pool lie.

use super::*;
use egeria_media::{BlockNumber, PoolIndex, PoolOffset};

/// Where the inode blocks of a removed pool are: its inodes keep their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rehoused {
    /// Pool that has them, and the table of pointers to them.
    pub pool: u8,
    /// First block of the table.
    pub table: BlockNumber,
    /// Pointers in the table.
    pub inode_blocks: u64,
}

impl Rehoused {
    /// Blocks of the table.
    pub fn table_blocks(&self) -> u64 {
        (self.inode_blocks * 8).div_ceil(BLOCK as u64)
    }
}

/// Where the regions of a pool lie; computed from its size and index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Size in blocks.
    pub blocks: u64,
    /// Journal slots (pool 0 only).
    pub journal_slots: u64,
    /// First block of the inode block pointers.
    pub pointer_block: BlockNumber,
    /// Inode blocks the pool can have; each holds [`INODES_PER_BLOCK`].
    pub inode_blocks: u64,
    /// First block that is allocated.
    pub data_block: BlockNumber,
    /// Pool that has the pointers and the inode blocks: this one, or of a removed pool another.
    pub record_pool: PoolIndex,
}

impl Geometry {
    /// Geometry of pool `index` of this many blocks.
    pub fn new(index: u8, blocks: u64) -> Geometry {
        let journal_slots = if index == 0 { JOURNAL_SLOTS } else { 0 };
        let pointer_block =
            JOURNAL_BLOCK.0 + (journal_slots * JOURNAL_SLOT_BYTES).div_ceil(BLOCK as u64);
        let inode_blocks = (blocks / INODES_PER_BLOCK).max(1);
        let data_block = pointer_block + (inode_blocks * 8).div_ceil(BLOCK as u64);
        Geometry {
            blocks,
            journal_slots,
            pointer_block: BlockNumber(pointer_block),
            inode_blocks,
            data_block: BlockNumber(data_block),
            record_pool: PoolIndex(index),
        }
    }

    /// Geometry of a removed pool: no blocks, and inodes in another one.
    pub fn of_removed(rehoused: &Rehoused) -> Geometry {
        Geometry {
            blocks: 0,
            journal_slots: 0,
            pointer_block: rehoused.table,
            inode_blocks: rehoused.inode_blocks,
            data_block: BlockNumber(0),
            record_pool: PoolIndex(rehoused.pool),
        }
    }

    /// Inode numbers of the pool.
    pub(crate) fn inodes(&self) -> u64 {
        self.inode_blocks * INODES_PER_BLOCK
    }

    /// Whether a run of blocks lies in the allocated part of the pool.
    pub fn holds(&self, block: BlockNumber, count: u64) -> bool {
        block.0 >= self.data_block.0 && count <= self.blocks && block.0 <= self.blocks - count
    }
}

/// Offset of the pointer to inode block `index` of a pool of this geometry, in its [`Geometry::record_pool`].
pub fn inode_pointer(geometry: &Geometry, index: u64) -> PoolOffset {
    geometry.pointer_block.offset() + index * 8
}
