//! Volumes over pools that are mapped already, in sessions that no other process sees: for programs that create,
//! crash, recover and compare thousands of volumes per second. Uses no file, lock or segment. Everything is
//! deterministic: same pools, same calls, same bytes.

use crate::attach::create::write_volume;
use crate::attach::pools::{Found, agrees, superblock_of};
use crate::format::{BLOCK, FORMAT_VERSION, Sibling, Superblock};
use crate::requests::*;
use crate::session::memory::SessionMemory;
use crate::session::segments::FileIdentity;
use egeria_media::Pool;
use std::sync::Arc;

/// Seed of directories' hashes, the same in every such session.
pub(super) const HASH_SEED: u64 = 0x9E37_79B9_7F4A_7C15;

/// Memory that private sessions use one after the other.
#[derive(Default)]
pub struct PrivateMemory(Option<Arc<SessionMemory>>);

impl PrivateMemory {
    /// Zeroed memory of this size: that of the last session, if its volume is gone.
    pub(crate) fn take(&mut self, bytes: usize) -> std::io::Result<Arc<SessionMemory>> {
        let unused = self
            .0
            .take()
            .and_then(|memory| Arc::try_unwrap(memory).ok());
        let memory = match unused.filter(|memory| memory.bytes() >= bytes) {
            Some(mut memory) => {
                memory.clear()?;
                memory
            }
            None => SessionMemory::private(bytes)?,
        };
        let memory = Arc::new(memory);
        self.0 = Some(Arc::clone(&memory));
        Ok(memory)
    }
}

/// Make a volume of these pools, on nodes 0, 1, …; its identity and times follow from `seed`.
///
/// # Errors
/// `EIO` when a pool cannot be written, or is too small for a volume.
pub fn create_private(
    pools: &[Arc<Pool>],
    seed: u64,
    options: &CreateOptions,
) -> Result<(), VolumeError> {
    let siblings = pools.iter().enumerate().map(|(index, pool)| Sibling {
        node: index as u16,
        blocks: pool.bytes() / BLOCK as u64,
        path: format!("pool{index}").into_bytes(),
        removed: None,
    });
    let base = Superblock {
        version: FORMAT_VERSION,
        volume: uuid::Uuid::from_u64_pair(HASH_SEED, seed).into_bytes(),
        pool_index: 0,
        created_ns: seed as i64,
        secret: uuid::Uuid::from_u64_pair(seed, HASH_SEED).into_bytes(),
        generation: 0,
        pools: siblings.collect(),
    };
    let pools: Vec<&Pool> = pools.iter().map(Arc::as_ref).collect();
    write_volume(&pools, &base, options)
}

/// Whether the superblocks of these pools name one volume.
pub fn is_volume_private(pools: &[Arc<Pool>]) -> bool {
    agreed_superblock(pools).is_ok()
}

/// What the first of these pools says of its volume. Pools behind those of the volume are left alone.
pub(crate) fn agreed_superblock(pools: &[Arc<Pool>]) -> Result<Superblock, VolumeError> {
    let unlike = || {
        failure(
            libc::EINVAL,
            "these are not the pools of one volume; give all of them in order",
        )
    };
    let (first, _) = superblock_of(pools.first().ok_or_else(unlike)?)?;
    if pools.len() < first.pools.len() {
        return Err(unlike());
    }
    for (index, pool) in pools.iter().enumerate() {
        if !first.has_pool(index) {
            continue;
        }
        let (other, _) = superblock_of(pool)?;
        let is_ours = other.volume == first.volume
            && other.secret == first.secret
            && other.pool_index as usize == index
            && agrees(&first, &other, index)
            && pool.blocks() >= first.pools[index].blocks;
        if !is_ours {
            return Err(unlike());
        }
    }
    Ok(first)
}

pub(crate) fn found_of(superblock: Superblock, pools: &[Arc<Pool>]) -> Found {
    Found {
        superblock,
        paths: pools.iter().map(|pool| pool.path().to_owned()).collect(),
        files: Vec::new(),
        owner: None,
        identity: FileIdentity::NONE,
    }
}
