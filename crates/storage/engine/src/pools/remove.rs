//! Removing a pool from a volume that no process has attached.
//!
//! 1. The pool is drained: no file or log has a block there any more.
//! 2. The blocks of its inode records are copied to another pool, with a new table of pointers to them. So inodes keep
//!    their numbers. These blocks are free as long as the list of pools does not name the table.
//! 3. A new list of pools is put in force, in which the pool is removed and the table is named.
//! 4. The superblocks of the removed pool are erased, so that nothing takes it for a pool of the volume.
//!
//! An interruption leaves the volume with the pool, drained as far as it came, or without it.

use crate::attach::attach_volume::{lock_for_check, map_pools};
use crate::attach::create::zero_blocks;
use crate::attach::pools::find_pools;
use crate::attach::private::PrivateMemory;
use crate::attach::superblocks::put_in_force;
use crate::format::*;
use crate::pools::drain::{DrainReport, GoOn, Unreadable};
use crate::pools::exclusive::{check_version, index_of, recover_alone};
use crate::requests::*;
use crate::session::volume::Volume;
use crate::space::free_space::Need;
use crate::space::operation::Operation;
use crate::types::{Errno, Outcome};
use egeria_media::{BlockNumber, Pool, PoolIndex};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What removing a pool did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedPool {
    /// Volume that it belonged to.
    pub volume: uuid::Uuid,
    /// Its index, which no other pool gets.
    pub pool: u8,
    /// Where it was.
    pub path: PathBuf,
    /// Blocks of files and logs that were still to be moved.
    pub moved_blocks: u64,
}

/// Remove the pool at this path from its volume.
///
/// # Errors
/// `EBUSY` when a process has the volume attached; `EPROTO` for a volume of an older format; `EINVAL` and `ENOSPC` as
/// [`Volume::drain`]; `EIO` when something cannot be moved; `EINTR` when `go_on` said so; else as [`Volume::attach`].
pub fn remove_pool(pool: &Path, go_on: GoOn<'_>) -> Result<RemovedPool, VolumeError> {
    FaultHandling::Engine.prepare()?;
    let mut found = find_pools(pool)?;
    let _locks = lock_for_check(&found)?;
    check_version(&found.superblock, pool)?;
    let index = index_of(&found.paths, pool)?;
    let media = map_pools(&mut found, false)?;
    let volume = recover_alone(&found.superblock, &found.paths, media)?;
    remove(&volume, index, go_on)
}

/// Remove a pool from the volume on these pools.
///
/// # Errors
/// As [`remove_pool`].
pub fn remove_pool_private(
    pools: &[Arc<Pool>],
    memory: &mut PrivateMemory,
    index: u8,
) -> Result<RemovedPool, VolumeError> {
    let volume = Volume::attach_private(pools, memory, &AttachOptions::default())?;
    check_version(volume.superblock(), Path::new("pool0"))?;
    remove(&volume, index, &mut |_| true)
}

/// Remove a pool from a volume that this process alone uses.
fn remove(volume: &Arc<Volume>, index: u8, go_on: GoOn<'_>) -> Result<RemovedPool, VolumeError> {
    let report = volume.drain(index, Unreadable::default(), go_on)?;
    check_drained(volume, index, &report)?;
    let current = volume.superblock();
    let mut smaller = Superblock {
        generation: current.generation + 1,
        ..current.clone()
    };
    let home = roomiest(volume, index);
    for (at, geometry) in volume.geometry.iter().enumerate() {
        if geometry.record_pool.0 != index {
            continue;
        }
        let moved = move_records(volume, geometry, home).map_err(|errno| {
            failure(
                errno.0,
                format!(
                    "the records of inodes on pool {index} cannot be moved to pool {home}: {errno}; the pool stays, add a larger one first",
                ),
            )
        })?;
        let pool = &mut smaller.pools[at];
        pool.blocks = 0;
        pool.path.clear();
        pool.removed = Some(moved);
    }
    let media: Vec<&Pool> = volume.media.iter().map(Arc::as_ref).collect();
    // The copied records first, then the list that names them.
    volume.media[home.0 as usize].fence();
    put_in_force(&media, &smaller)?;
    let removed = &volume.media[index as usize];
    // Whether they are durable does not matter: pool 0 does not name the pool any more.
    let _ = zero_blocks(removed, 0, SESSION_LINE_BLOCK.0);
    Ok(RemovedPool {
        volume: volume.uuid(),
        pool: index,
        path: volume.paths[index as usize].clone(),
        moved_blocks: report.moved_blocks,
    })
}

fn check_drained(volume: &Volume, index: u8, report: &DrainReport) -> Result<(), VolumeError> {
    if report.is_stopped {
        return Err(failure(
            libc::EINTR,
            "stopped; the pool stays, and what was moved is moved: give the command again",
        ));
    }
    let Some((ino, errno)) = report.left.first() else {
        return Ok(());
    };
    let count = report.left.len();
    let pool = volume.paths[0].display();
    Err(failure(
        errno.0,
        format!(
            "{count} inodes cannot be moved off pool {index}, the first is {}: {errno}; the pool stays: run `egeria check {pool}`, remove what is damaged, then try again",
            ino.0
        ),
    ))
}

/// The other pool with the most room.
fn roomiest(volume: &Volume, index: u8) -> PoolIndex {
    let others = (0..volume.geometry.len() as u8)
        .filter(|other| *other != index && volume.superblock().has_pool(*other as usize));
    let most = others.max_by_key(|other| volume.space(Some(*other)).free_blocks);
    PoolIndex(most.unwrap_or(0))
}

/// Copy blocks of records, and make a table of pointers to the copies.
fn move_records(volume: &Volume, old: &Geometry, home: PoolIndex) -> Outcome<Rehoused> {
    let from = old.record_pool;
    let mut chunks = Vec::new();
    for chunk in 0..old.inode_blocks {
        let word = volume.load_word(from, inode_pointer(old, chunk))?;
        let block = decode_inode_pointer(chunk, word).map_err(|()| Errno(libc::EIO))?;
        chunks.extend(block.map(|block| (chunk, block)));
    }
    let pointers = chunks.last().map_or(1, |(chunk, _)| chunk + 1);
    let mut rehoused = Rehoused {
        pool: home.0,
        table: BlockNumber(0),
        inode_blocks: pointers,
    };
    rehoused.table = take_run(volume, home, rehoused.table_blocks())?;
    let media = volume.pool(home)?;
    let new = Geometry::of_removed(&rehoused);
    let mut table = vec![0; rehoused.table_blocks() as usize * BLOCK];
    for (chunk, block) in chunks {
        let copy = take_run(volume, home, 1)?;
        let mut bytes = [0; BLOCK];
        volume.read_media(from, block.offset(), &mut bytes)?;
        media
            .write_bytes(copy.offset(), &bytes)
            .map_err(|_| Errno(libc::EIO))?;
        media.flush(copy.offset(), BLOCK as u64);
        let at = (inode_pointer(&new, chunk).0 - rehoused.table.offset().0) as usize;
        let word = encode_inode_pointer(chunk, copy).to_le_bytes();
        let place = table.get_mut(at..at + word.len());
        place.ok_or(Errno(libc::EIO))?.copy_from_slice(&word);
    }
    let at = rehoused.table.offset();
    media
        .write_bytes(at, &table)
        .map_err(|_| Errno(libc::EIO))?;
    media.flush(at, table.len() as u64);
    Ok(rehoused)
}

/// A run of free blocks that this session never gives back: recovery counts it as free until a list names the table.
fn take_run(volume: &Volume, pool: PoolIndex, count: u64) -> Outcome<BlockNumber> {
    let mut operation = Operation::new(volume, volume.me()?);
    let taken = operation.take(0, 0, count, pool.0 as usize, Need::Freeing)?;
    if taken.pool != pool || taken.count != count {
        return Err(Errno(libc::ENOSPC));
    }
    operation.keep_from(0);
    Ok(taken.block)
}
