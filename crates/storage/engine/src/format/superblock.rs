//! The superblock: describes a pool; stored twice, each copy with a checksum.

use super::*;
use egeria_media::BlockNumber;

/// First bytes of every superblock.
pub const SUPERBLOCK_MAGIC: u64 = u64::from_le_bytes(*b"EGERIAFS");
/// Bytes of one copy.
pub const SUPERBLOCK_BYTES: usize = 2 * BLOCK;
/// First blocks of the two copies.
pub const SUPERBLOCK_COPIES: [u64; 2] = [0, 2];
/// Block of the session line (pool 0).
pub const SESSION_LINE_BLOCK: BlockNumber = BlockNumber(4);
/// Longest path of a sibling, bytes.
pub const MAX_PATH_BYTES: usize = 464;

const HEADER_BYTES: usize = 256;
const SIBLING_BYTES: usize = 480;

/// A pool as its siblings know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sibling {
    /// Node the pool belongs to.
    pub node: u16,
    /// Size in blocks.
    pub blocks: u64,
    /// Absolute path when the pool became one of the volume.
    pub path: Vec<u8>,
    /// Where the inode blocks are if the pool was removed; `None`: it is there.
    pub removed: Option<Rehoused>,
}

/// A pool's state: it is in use.
const IN_USE: u8 = 0;
/// It was removed.
const REMOVED: u8 = 1;

/// A decoded superblock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Version of the format, the same in all pools of the volume.
    pub version: u32,
    /// Volume the pool belongs to.
    pub volume: [u8; 16],
    pub pool_index: u8,
    /// When the volume was made, ns since the epoch.
    pub created_ns: i64,
    /// A secret that only the pools of the volume contain: a pool with it cannot be made without reading another one.
    /// Zero in version 2.
    pub secret: [u8; 16],
    /// How often the list of pools or the version was changed. What pool 0 says is in force; the other pools may be
    /// behind. Zero before version 6.
    pub generation: u64,
    /// All pools of the volume, this one too.
    pub pools: Vec<Sibling>,
}

/// Why a superblock does not decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SuperblockFault {
    /// No Egeria pool at all.
    NotAPool,
    /// A format this code does not know.
    Version(u32),
    /// Checksum or a field is wrong.
    Damaged,
}

impl Superblock {
    /// Geometry of each pool.
    pub fn geometry(&self) -> Vec<Geometry> {
        let pools = self.pools.iter().enumerate();
        let geometry = |(index, pool): (usize, &Sibling)| match &pool.removed {
            None => Geometry::new(index as u8, pool.blocks),
            Some(rehoused) => Geometry::of_removed(rehoused),
        };
        pools.map(geometry).collect()
    }

    /// Whether there is a pool with this index that was not removed.
    pub fn has_pool(&self, index: usize) -> bool {
        let pool = self.pools.get(index);
        pool.is_some_and(|pool| pool.removed.is_none())
    }

    /// The bytes of one copy.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0u8; SUPERBLOCK_BYTES];
        put_u64(&mut bytes, 0, SUPERBLOCK_MAGIC);
        put_u32(&mut bytes, 8, self.version);
        put_u16(&mut bytes, 12, self.pool_index as u16);
        put_u16(&mut bytes, 14, self.pools.len() as u16);
        bytes[16..32].copy_from_slice(&self.volume);
        put_u64(&mut bytes, 32, self.created_ns as u64);
        bytes[40..56].copy_from_slice(&self.secret);
        put_u64(&mut bytes, 56, self.generation);
        for (index, pool) in self.pools.iter().enumerate() {
            let at = HEADER_BYTES + index * SIBLING_BYTES;
            put_u64(&mut bytes, at, pool.blocks);
            put_u16(&mut bytes, at + 8, pool.node);
            if let Some(rehoused) = &pool.removed {
                bytes[at + 12] = REMOVED;
                bytes[at + 13] = rehoused.pool;
                put_u64(&mut bytes, at + 16, rehoused.table.0);
                put_u64(&mut bytes, at + 24, rehoused.inode_blocks);
                continue;
            }
            put_u16(&mut bytes, at + 10, pool.path.len() as u16);
            bytes[at + 16..at + 16 + pool.path.len()].copy_from_slice(&pool.path);
        }
        let crc = super::checksum::crc32c(&bytes[..SUPERBLOCK_BYTES - 4]);
        put_u32(&mut bytes, SUPERBLOCK_BYTES - 4, crc);
        bytes
    }

    /// Decode one copy; all of it is checked.
    ///
    /// # Errors
    /// What is wrong with the copy: no superblock, another version, or damage.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, SuperblockFault> {
        if bytes.len() < SUPERBLOCK_BYTES || get_u64(bytes, 0) != SUPERBLOCK_MAGIC {
            return Err(SuperblockFault::NotAPool);
        }
        let crc = super::checksum::crc32c(&bytes[..SUPERBLOCK_BYTES - 4]);
        if crc != get_u32(bytes, SUPERBLOCK_BYTES - 4) {
            return Err(SuperblockFault::Damaged);
        }
        // The version is read only if the checksum is good: every version keeps the first and last fields in place.
        let version = get_u32(bytes, 8);
        if !(OLDEST_FORMAT_VERSION..=FORMAT_VERSION).contains(&version) {
            return Err(SuperblockFault::Version(version));
        }
        let pool_index = get_u16(bytes, 12) as usize;
        let count = get_u16(bytes, 14) as usize;
        if count == 0 || count > MAX_POOLS || pool_index >= count {
            return Err(SuperblockFault::Damaged);
        }
        let pools: Vec<Sibling> = (0..count)
            .map(|index| decode_sibling(bytes, version, index))
            .collect::<Result<_, _>>()?;
        if !pools.iter().all(|pool| is_housed(pool, &pools)) || pools[0].removed.is_some() {
            return Err(SuperblockFault::Damaged);
        }
        let mut volume = [0; 16];
        volume.copy_from_slice(&bytes[16..32]);
        let mut secret = [0; 16];
        if version >= FIRST_VERSION_WITH_SECRET {
            secret.copy_from_slice(&bytes[40..56]);
            if secret == [0; 16] {
                return Err(SuperblockFault::Damaged);
            }
        }
        let generation = if version >= FIRST_VERSION_WITH_POOL_CHANGES {
            get_u64(bytes, 56)
        } else {
            0
        };
        Ok(Superblock {
            version,
            volume,
            pool_index: pool_index as u8,
            created_ns: get_u64(bytes, 32) as i64,
            secret,
            generation,
            pools,
        })
    }
}

/// Whether the inode blocks of a pool have a place.
fn is_housed(pool: &Sibling, pools: &[Sibling]) -> bool {
    let Some(rehoused) = &pool.removed else {
        return true;
    };
    let index = rehoused.pool;
    pools.get(index as usize).is_some_and(|home| {
        let is_counted = (1..=home.blocks).contains(&rehoused.inode_blocks);
        home.removed.is_none()
            && is_counted
            && Geometry::new(index, home.blocks).holds(rehoused.table, rehoused.table_blocks())
    })
}

fn decode_sibling(bytes: &[u8], version: u32, index: usize) -> Result<Sibling, SuperblockFault> {
    let at = HEADER_BYTES + index * SIBLING_BYTES;
    let state = if version >= FIRST_VERSION_WITH_POOL_CHANGES {
        bytes[at + 12]
    } else {
        IN_USE
    };
    if state > REMOVED {
        return Err(SuperblockFault::Damaged);
    }
    if state == REMOVED {
        return Ok(Sibling {
            node: get_u16(bytes, at + 8),
            blocks: 0,
            path: Vec::new(),
            removed: Some(Rehoused {
                pool: bytes[at + 13],
                table: BlockNumber(get_u64(bytes, at + 16)),
                inode_blocks: get_u64(bytes, at + 24),
            }),
        });
    }
    let length = get_u16(bytes, at + 10) as usize;
    let blocks = get_u64(bytes, at);
    if length > MAX_PATH_BYTES || blocks < MIN_POOL_BYTES / BLOCK as u64 || blocks >= 1 << 40 {
        return Err(SuperblockFault::Damaged);
    }
    Ok(Sibling {
        node: get_u16(bytes, at + 8),
        blocks,
        path: bytes[at + 16..at + 16 + length].to_vec(),
        removed: None,
    })
}

const _: () = assert!(HEADER_BYTES + MAX_POOLS * SIBLING_BYTES + 4 <= SUPERBLOCK_BYTES);
