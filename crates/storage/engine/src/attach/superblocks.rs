//! Changing the superblocks of a volume: its list of pools, or its version.
//!
//! What pool 0 says is in force. Its superblock is written first, one copy after the other. So the change happens when
//! the last word of the first of these copies arrives: until then its checksum is wrong, and the other copy counts. The
//! copies of the other pools only show where pool 0 is, and may be behind. Attaching brings all copies up to date.

use crate::format::*;
use crate::requests::{VolumeError, failure};
use egeria_media::{BlockNumber, Pool};

fn read_copy(pool: &Pool, copy: usize) -> egeria_media::Result<Vec<u8>> {
    let mut bytes = vec![0; SUPERBLOCK_BYTES];
    pool.read_bytes(BlockNumber(SUPERBLOCK_COPIES[copy]).offset(), &mut bytes)?;
    Ok(bytes)
}

fn write_copy(pool: &Pool, copy: usize, bytes: &[u8]) -> egeria_media::Result<()> {
    let at = BlockNumber(SUPERBLOCK_COPIES[copy]).offset();
    pool.write_bytes(at, bytes)?;
    pool.flush(at, bytes.len() as u64);
    pool.fence();
    Ok(())
}

/// Write both copies, one after the other: first the one that is damaged or behind, if there is one. So a whole copy
/// is there at any instant.
pub(crate) fn write_copies(pool: &Pool, bytes: &[u8]) -> egeria_media::Result<()> {
    let generations = [0, 1].map(|copy| {
        let there = read_copy(pool, copy).ok();
        there.and_then(|there| Superblock::decode(&there).ok().map(|it| it.generation))
    });
    let order = if generations[0] < generations[1] {
        [0, 1]
    } else {
        [1, 0]
    };
    for copy in order {
        // A copy that cannot be read may still take a store.
        if read_copy(pool, copy).map_or(true, |there| there != bytes) {
            write_copy(pool, copy, bytes)?;
        }
    }
    Ok(())
}

/// Put a superblock in force. Its generation is higher than that of all copies. `pools` has all of its pools
/// by index; no process has them attached.
pub(crate) fn put_in_force(pools: &[&Pool], new: &Superblock) -> Result<(), VolumeError> {
    for (index, pool) in pools.iter().enumerate() {
        if !new.has_pool(index) {
            continue;
        }
        let pool_index = index as u8;
        let bytes = Superblock {
            pool_index,
            ..new.clone()
        }
        .encode();
        write_copies(pool, &bytes).map_err(|error| failure(libc::EIO, error.to_string()))?;
    }
    Ok(())
}

/// Bring copies up to date that an interrupted change left behind. Damaged copies stay: a check reports them.
pub(crate) fn complete(pools: &[&Pool], current: &Superblock) -> Result<(), VolumeError> {
    let is_behind = |pool: &Pool, copy| {
        let there = read_copy(pool, copy).ok();
        let there = there.and_then(|bytes| Superblock::decode(&bytes).ok());
        there.is_some_and(|there| there.generation < current.generation)
    };
    let there = pools.iter().enumerate();
    let mut there = there.filter(|(index, _)| current.has_pool(*index));
    if there.any(|(_, pool)| is_behind(pool, 0) || is_behind(pool, 1)) {
        put_in_force(pools, current)
    } else {
        Ok(())
    }
}
