//! Forging superblocks, and damage by chance: bytes, words, lines and blocks in the wrong place.

use super::super::values::HostileValues;
use super::forge::Forge;
use egeria_engine::format::*;
use egeria_media::{BlockNumber, PoolOffset};

impl Forge<'_> {
    /// Let a pool be another one than it is: in one copy or in both.
    pub(super) fn change_superblock(&mut self) {
        let pool = self.any_pool();
        let copies = match self.rng.below(3) {
            0 => &SUPERBLOCK_COPIES[..1],
            1 => &SUPERBLOCK_COPIES[1..],
            _ => &SUPERBLOCK_COPIES[..],
        };
        let first = BlockNumber(SUPERBLOCK_COPIES[0]).offset();
        let mut bytes: [u8; SUPERBLOCK_BYTES] = self.read(pool, first);
        match Superblock::decode(&bytes) {
            Ok(superblock) if self.rng.one_in(2) => {
                let forged = self.vary_superblock(superblock);
                self.line(|| format!("superblock of pool {pool}: {forged:?}"));
                bytes.copy_from_slice(&forged.encode());
            }
            _ => {
                for _ in 0..=self.rng.below(3) {
                    let at = if self.rng.one_in(2) {
                        self.rng.index(40)
                    } else {
                        256 + self.rng.index(480 * 2)
                    };
                    bytes[at] = self.rng.boundary_value() as u8;
                }
                let sum = checksum::crc32c(&bytes[..SUPERBLOCK_BYTES - 4]);
                bytes[SUPERBLOCK_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
                self.line(|| format!("bytes of the superblock of pool {pool}, sealed"));
            }
        }
        for copy in copies {
            self.write(pool, BlockNumber(*copy).offset(), &bytes);
        }
    }

    fn vary_superblock(&mut self, superblock: Superblock) -> Superblock {
        let mut superblock = superblock;
        let which = self.rng.index(superblock.pools.len());
        let rng = &mut self.rng;
        match rng.below(11) {
            9 => superblock.generation = rng.boundary_value(),
            10 => {
                superblock.pools[which].removed = Some(Rehoused {
                    pool: rng.below(17) as u8,
                    table: BlockNumber(rng.near_value(300)),
                    inode_blocks: rng.boundary_value(),
                });
            }
            8 => superblock.version = rng.boundary_value() as u32,
            0 => superblock.pool_index = rng.below(17) as u8 % superblock.pools.len() as u8,
            1 => superblock.created_ns = rng.boundary_value() as i64,
            2 => superblock.volume[rng.index(16)] ^= 1,
            3 => superblock.pools[which].node = rng.boundary_value() as u16,
            4 => superblock.pools[which].path = vec![b'/'; rng.index(MAX_PATH_BYTES + 1)],
            5 | 6 => {
                let blocks = superblock.pools[which].blocks;
                superblock.pools[which].blocks = if rng.one_in(3) {
                    rng.near_value(blocks)
                } else {
                    blocks - rng.below(64)
                };
            }
            _ if superblock.pools.len() < MAX_POOLS && rng.one_in(2) => {
                let again = superblock.pools[which].clone();
                superblock.pools.push(again);
            }
            _ => superblock.pools.truncate(1 + which),
        }
        superblock
    }

    /// Change bytes or a word somewhere, mostly in metadata.
    pub(super) fn change_bytes(&mut self) {
        let (pool, at) = self.any_place();
        self.line(|| format!("bytes at {at} of pool {pool}"));
        match self.rng.below(4) {
            0 => {
                let byte = self.read::<1>(pool, at)[0] ^ (1 << self.rng.below(8));
                self.write(pool, at, &[byte]);
            }
            1 => {
                let word = self.rng.boundary_value();
                self.store(pool, PoolOffset(at.0 / 8 * 8), word);
            }
            2 => {
                let bytes = vec![self.rng.boundary_value() as u8; self.rng.index(200)];
                self.write(pool, at, &bytes);
            }
            _ => {
                let (other, from) = self.any_place();
                let line: [u8; LINE] = self.read(other, PoolOffset(from.0 / 64 * 64));
                self.write(pool, PoolOffset(at.0 / 64 * 64), &line);
            }
        }
    }

    /// A byte of a structure, or of anything.
    fn any_place(&mut self) -> (usize, PoolOffset) {
        let within = self.rng.below(BLOCK as u64);
        match self.rng.below(6) {
            0 | 1 => {
                if let Some(page) = self.any_page() {
                    return (page.pool, page.position(0).offset() + within % 1024);
                }
            }
            2 => {
                if let Some(record) = self.any_record() {
                    return (record.pool, record.at + within % INODE_BYTES);
                }
            }
            3 => {
                let pool = self.any_pool();
                let pointers = self.sample.layout.geometry[pool].pointer_block.offset();
                return (pool, pointers + within % 64);
            }
            4 => return (0, PoolOffset(self.rng.below(6) * BLOCK as u64 + within)),
            _ => {}
        }
        let pool = self.any_pool();
        let blocks = self.sample.layout.geometry[pool].blocks;
        (pool, BlockNumber(self.rng.below(blocks)).offset() + within)
    }

    /// A block in the place of another, as a controller that mixes up addresses would have it.
    pub(super) fn move_block(&mut self) {
        let ((from_pool, from), (to_pool, to)) = (self.any_place(), self.any_place());
        let (from, to) = (from.block(), to.block());
        self.line(|| format!("block {to} of pool {to_pool} is block {from} of pool {from_pool}"));
        let bytes: [u8; BLOCK] = if self.rng.one_in(4) {
            [0; BLOCK]
        } else {
            self.read(from_pool, from.offset())
        };
        if self.rng.one_in(3) {
            let swapped: [u8; BLOCK] = self.read(to_pool, to.offset());
            self.write(from_pool, from.offset(), &swapped);
        }
        self.write(to_pool, to.offset(), &bytes);
    }
}
