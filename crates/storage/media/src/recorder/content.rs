//! What is in pools.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::lines::LineKey;
use crate::address::{CACHE_LINE_BYTES, PoolIndex, PoolOffset};
use crate::error::Result;
use crate::pool::Pool;

pub(super) type Line = [u8; CACHE_LINE_BYTES as usize];

/// Pools in memory, by index.
#[derive(Clone, Default)]
pub struct PoolSet(pub(super) Vec<(PoolIndex, Arc<Pool>)>);

impl PoolSet {
    /// These pools, numbered from 0.
    pub fn new(pools: impl IntoIterator<Item = Arc<Pool>>) -> PoolSet {
        let numbered = (0..).map(PoolIndex).zip(pools);
        PoolSet(numbered.collect())
    }

    /// Pools of their own with the same content.
    ///
    /// # Errors
    /// `EIO` when a pool cannot be read.
    pub fn copy(&self) -> io::Result<PoolSet> {
        let copies = self.0.iter().map(|(index, pool)| {
            let copy = copy_of(pool)?;
            Ok((*index, Arc::new(copy)))
        });
        copies.collect::<io::Result<_>>().map(PoolSet)
    }

    pub fn get(&self, index: PoolIndex) -> Option<&Arc<Pool>> {
        let found = self.0.iter().find(|(own, _)| *own == index);
        found.map(|(_, pool)| pool)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.0.iter().map(|(_, pool)| pool)
    }

    /// All of them with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (PoolIndex, &Arc<Pool>)> {
        self.0.iter().map(|(index, pool)| (*index, pool))
    }

    pub(super) fn line(&self, &(pool, line): &LineKey) -> Line {
        let mut bytes = [0; CACHE_LINE_BYTES as usize];
        if let Some(pool) = self.get(pool) {
            // A line outside the pool was never stored to: it stays zero.
            let _ = pool.read_bytes(PoolOffset(line * CACHE_LINE_BYTES), &mut bytes);
        }
        bytes
    }

    pub(super) fn store_line(&self, &(pool, line): &LineKey, bytes: &Line) -> Result<()> {
        match self.get(pool) {
            Some(pool) => pool.store_unseen(PoolOffset(line * CACHE_LINE_BYTES), bytes),
            None => Ok(()),
        }
    }
}

/// A pool in memory with the same content; pages of zeros take no memory.
pub(super) fn copy_of(pool: &Pool) -> io::Result<Pool> {
    let copy = Pool::anonymous(pool.bytes());
    for_each_chunk(pool, |at, chunk| {
        copy.write_bytes(PoolOffset(at), chunk)
            .map_err(io::Error::other)
    })?;
    Ok(copy)
}

/// Writes a pool's content to a file of its size that is all zeros; holes stay holes.
pub(super) fn save(pool: &Pool, file: &File) -> io::Result<()> {
    for_each_chunk(pool, |at, chunk| file.write_all_at(chunk, at))
}

/// Chunks of a pool that are not all zeros.
fn for_each_chunk(
    pool: &Pool,
    mut visit: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut chunk = vec![0u8; 64 << 10];
    let mut at = 0;
    while at < pool.bytes() {
        let bytes = (pool.bytes() - at).min(chunk.len() as u64) as usize;
        pool.read_bytes(PoolOffset(at), &mut chunk[..bytes])
            .map_err(io::Error::other)?;
        if chunk[..bytes].iter().any(|&byte| byte != 0) {
            visit(at, &chunk[..bytes])?;
        }
        at += bytes as u64;
    }
    Ok(())
}
