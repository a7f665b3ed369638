//! Pools that were added while the volume is in use.
//!
//! 1. The process that adds a pool makes its maps in the session, which has room for some more pools, and puts the new list of pools
//!    in force on media. Then it stores the number of pools in the session.
//! 2. Every other process opens the pool when it meets it: in a log, in the number of an inode, or when it looks for space. Until
//!    then it takes no space there.
//!
//! If the process that adds a pool dies before the list is in force, nothing uses the maps, and the next attempt makes them again. If
//! it dies after that, processes find the pool on media.

use crate::attach::pool_locks::{ATTACHED, lock_byte, unlockable};
use crate::attach::pools::{
    check_owner, check_sibling, check_size, open_pool, sibling_path, superblock_of,
};
use crate::format::Superblock;
use crate::requests::{VolumeError, failure};
use crate::session::Reports;
use crate::session::volume::{Origin, Reported, Severity, Volume};
use crate::types::Errno;
use egeria_media::{Access, Pool};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long another thread of this process is waited for. After a fork it may not be there any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// Open the pools that were added to a volume since this process looked last. What cannot be opened is reported.
pub(crate) fn open_added_pools(volume: &Volume) {
    if volume.origin == Origin::Private || volume.media.is_empty() {
        return;
    }
    let began = Instant::now();
    let _opening = loop {
        match volume.opening_pools.try_lock() {
            Ok(opening) => break opening,
            Err(_) if began.elapsed() > PATIENCE => return,
            Err(_) => std::thread::sleep(Duration::from_micros(100)),
        }
    };
    if let Err(error) = open_all(volume) {
        let pool = volume.media.len();
        // It is tried each time that this process looks for space.
        if Reports::of(volume).is_new(Reported::AddedPool { pool }) {
            let line = format!("a pool was added that this process cannot open: {error}");
            volume.report(Severity::Error, &line);
        }
    }
}

fn open_all(volume: &Volume) -> Result<(), VolumeError> {
    let (current, _) = superblock_of(&volume.media[0])?;
    let known = volume.superblock();
    let is_later = current.volume == known.volume
        && current.secret == known.secret
        && current.generation > known.generation
        && current.pools.len() > known.pools.len()
        && current.pools.starts_with(&known.pools);
    if !is_later {
        return Ok(());
    }
    for index in volume.media.len()..current.pools.len() {
        open_one(volume, &current, index)?;
    }
    volume.superblocks.push(current);
    Ok(())
}

/// /dev/shm is full.
pub(crate) fn no_memory(errno: Errno) -> VolumeError {
    failure(
        errno.0,
        "/dev/shm has no room for the maps of the pool; free some of it",
    )
}

fn open_one(volume: &Volume, current: &Superblock, index: usize) -> Result<(), VolumeError> {
    let sibling = &current.pools[index];
    let path = sibling_path(&volume.paths[0], &sibling.path);
    let room = volume.session.room_for_pool(index);
    if room.is_none_or(|room| room < sibling.blocks) {
        let message = format!(
            "{} is larger than what the session has room for; end all programs that use the volume, and mount it again",
            path.display()
        );
        return Err(failure(libc::ENOSPC, message));
    }
    let (owner, file) = open_pool(&path)?;
    if let Some(ours) = volume.session.owner() {
        check_owner(ours, owner, &path)?;
    }
    check_sibling(current, index, &file, &path)?;
    check_size(current, index, &file, &path)?;
    let locked = lock_byte(&file, ATTACHED, libc::F_RDLCK);
    if !locked.map_err(|error| unlockable(&path, &error))? {
        let message = format!("{} is being changed; try again", path.display());
        return Err(failure(libc::EBUSY, message));
    }
    let mounts = volume.session.header().lookup_mounts.iter().enumerate();
    for (mount, _) in mounts.filter(|(_, owner)| owner.load(Ordering::Acquire) != 0) {
        let backed = volume.session.back_lookup_references_of(mount, index);
        backed.map_err(no_memory)?;
    }
    let path = std::fs::canonicalize(&path).unwrap_or(path);
    let pool = Pool::open_with_file(file, &path, Access::ReadWrite)
        .map_err(|error| failure(libc::EIO, error.to_string()))?;
    if volume.reporter.get().is_some() {
        volume.report_blocks_of(index, &pool);
    }
    // The pool last: threads that find it find everything else.
    let geometry = current.geometry().swap_remove(index);
    let _ = volume.paths.push(path);
    let _ = volume.geometry.push(geometry);
    let _ = volume.media.push(Arc::new(pool));
    Ok(())
}
