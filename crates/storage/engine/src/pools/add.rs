//! Adding a pool to a volume.
//!
//! The new pool is prepared first: empty metadata, and superblocks that name it as the next pool. As long as pool 0
//! does not name it, it means nothing. Then the new list is put in force. After an interruption the volume has the old
//! list or the new one, and adding the same pool again completes what was begun. In a volume that is in use, the maps of the new pool
//! are made in the session before that (see `attach::grown`).

use crate::attach::attach_volume::{lock_for_check, map_pools};
use crate::attach::create::{open_new, prepare_file, too_small, zero_blocks};
use crate::attach::grown::{no_memory, open_added_pools};
use crate::attach::pool_locks::{CREATING, lock_soon};
use crate::attach::pools::{Found, find_pools, open_pool, read_superblock, superblock_of};
use crate::attach::private::agreed_superblock;
use crate::attach::superblocks::{put_in_force, write_copies};
use crate::format::*;
use crate::pools::exclusive::check_version;
use crate::requests::*;
use crate::session::segments::FileIdentity;
use crate::session::trust::{Owner, open_carefully};
use crate::session::volume::{Origin, Volume};
use crate::space::Space;
use egeria_machine::format_bytes;
use egeria_media::Pool;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What adding a pool made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedPool {
    /// Volume that it belongs to.
    pub volume: uuid::Uuid,
    /// Its index.
    pub pool: u8,
    /// Size in blocks.
    pub blocks: u64,
}

/// Add a pool to the volume of the pool at `pool`. With `force`, what `request` names may hold another volume, which is
/// destroyed.
///
/// # Errors
/// `EBUSY` when a process has the volume or the new pool attached; `EEXIST` for a pool of this or another volume;
/// `EPROTO` for a volume of an older format; `EINVAL` for a pool that is too small, and for more than 16 pools;
/// `EPERM`, `ENAMETOOLONG`, `EIO` and other errors of the system as for [`crate::create_volume`].
pub fn add_pool(pool: &Path, request: &PoolRequest, force: bool) -> Result<AddedPool, VolumeError> {
    FaultHandling::Engine.prepare()?;
    let mut found = find_pools(pool)?;
    let _locks = lock_for_check(&found)?;
    let current = found.superblock.clone();
    check_room(&current, pool)?;
    if request.bytes.is_some_and(|bytes| bytes < MIN_POOL_BYTES) {
        return Err(too_small(&request.path, request.bytes.unwrap_or(0)));
    }
    let is_new_file = !request.path.exists();
    let prepared = prepare_pool(&found, request, force).inspect_err(|_| {
        if is_new_file {
            let _ = std::fs::remove_file(&request.path);
        }
    });
    let (new, sibling) = prepared?;
    let blocks = sibling.blocks;
    let old = map_pools(&mut found, false)?;
    let old: Vec<&Pool> = old.iter().map(Arc::as_ref).collect();
    add_to(&old, &new, &current, sibling)?;
    Ok(AddedPool {
        volume: uuid::Uuid::from_bytes(current.volume),
        pool: old.len() as u8,
        blocks,
    })
}

/// Add the last of these pools, on node 0, to the volume that the others hold.
///
/// # Errors
/// As [`add_pool`].
pub fn add_pool_private(pools: &[Arc<Pool>]) -> Result<(), VolumeError> {
    let (new, old) = pools
        .split_last()
        .ok_or_else(|| failure(libc::EINVAL, "no pools were given; give some"))?;
    let current = agreed_superblock(old)?;
    let old: Vec<&Pool> = old.iter().map(Arc::as_ref).collect();
    let sibling = Sibling {
        node: 0,
        blocks: new.blocks(),
        path: format!("pool{}", old.len()).into_bytes(),
        removed: None,
    };
    add_to(&old, new, &current, sibling)
}

impl Volume {
    /// Add a pool while the volume is in use. Other processes use it when they meet it, or look for space.
    ///
    /// # Errors
    /// As [`add_pool`], but that the volume is in use. `EROFS`; `EOPNOTSUPP` on an emulated machine; `ENOSPC` for a pool that is
    /// larger than the largest one of the volume, and for more than two; `ENOMEM` when /dev/shm is full.
    pub fn add_pool(&self, request: &PoolRequest, force: bool) -> Result<AddedPool, VolumeError> {
        if self.writable().is_err() || self.origin == Origin::Private {
            let message = "the volume is attached for reading only; attach it for changes";
            return Err(failure(libc::EROFS, message));
        }
        if self.emulated().is_some() {
            let message = "the machine of the volume is emulated, and its pools stay as they are; end all programs that use it first";
            return Err(failure(libc::EOPNOTSUPP, message));
        }
        let first = &self.paths[0];
        let (_, lock) = open_pool(first)?;
        // No other process changes the pools, or attaches, until the file is closed.
        lock_soon(&lock, first, CREATING, libc::F_WRLCK)?;
        let found = find_pools(first)?;
        let current = found.superblock.clone();
        check_room(&current, first)?;
        open_added_pools(self);
        let index = self.media.len();
        if index != current.pools.len() {
            let message =
                "a pool that was added before cannot be opened; look at the message of the command";
            return Err(failure(libc::EIO, message));
        }
        let room = self.session.room_for_pool(index).unwrap_or(0);
        let is_new_file = !request.path.exists();
        let prepared = self.prepare_added(&found, request, force, room);
        let prepared = prepared.inspect_err(|_| {
            if is_new_file {
                let _ = std::fs::remove_file(&request.path);
            }
        });
        let (new, sibling) = prepared?;
        let blocks = sibling.blocks;
        let old: Vec<&Pool> = self.media.iter().map(Arc::as_ref).collect();
        // From here on the file stays: the list may be in force, also when this fails.
        add_to(&old, &new, &current, sibling)?;
        open_added_pools(self);
        if self.media.len() == index {
            let message = format!(
                "{} was added, and cannot be opened; mount the volume again",
                request.path.display()
            );
            return Err(failure(libc::EIO, message));
        }
        let count = &self.session.header().pool_count;
        count.fetch_max(index as u32 + 1, Ordering::AcqRel);
        self.note_pools_again();
        Ok(AddedPool {
            volume: uuid::Uuid::from_bytes(current.volume),
            pool: index as u8,
            blocks,
        })
    }

    /// Make the file of a pool, and its maps in the session.
    fn prepare_added(
        &self,
        found: &Found,
        request: &PoolRequest,
        force: bool,
        room: u64,
    ) -> Result<(Pool, Sibling), VolumeError> {
        let too_large = || {
            let message = if room == 0 {
                "two pools were added since the volume was attached, and there is room for no other; end all programs that use it, then add the pool".to_owned()
            } else {
                format!(
                    "a pool that is added to a volume in use can have at most {}; name a smaller size, or end all programs that use the volume first",
                    format_bytes(room * BLOCK as u64)
                )
            };
            failure(libc::ENOSPC, message)
        };
        let wanted = request.bytes.unwrap_or(MIN_POOL_BYTES);
        if wanted < MIN_POOL_BYTES {
            return Err(too_small(&request.path, wanted));
        }
        if wanted / BLOCK as u64 > room {
            return Err(too_large());
        }
        let (new, sibling) = prepare_pool(found, request, force)?;
        let blocks = sibling.blocks;
        if blocks > room {
            return Err(too_large());
        }
        let index = self.media.len();
        // No process has found the pool yet. When it is in force, one may do so at any time.
        self.session.back_maps(index).map_err(no_memory)?;
        let geometry = Geometry::new(index as u8, blocks);
        Space::of(self).initialise_added_pool(index, &geometry);
        Ok((new, sibling))
    }
}

fn check_room(current: &Superblock, pool: &Path) -> Result<(), VolumeError> {
    check_version(current, pool)?;
    if current.pools.len() == MAX_POOLS {
        return Err(failure(
            libc::EINVAL,
            format!(
                "the volume of {} has {MAX_POOLS} pools, no volume has more; copy it to one of larger pools",
                pool.display()
            ),
        ));
    }
    Ok(())
}

/// Make the file, and map it.
fn prepare_pool(
    found: &Found,
    request: &PoolRequest,
    force: bool,
) -> Result<(Pool, Sibling), VolumeError> {
    match state_of(found, request, force)? {
        // Its content is as it has to be, up to the superblocks.
        State::Prepared => {}
        State::Unused { force } => prepare_file(request, force)?,
    }
    check_owner(found, &request.path)?;
    open_new(request)
}

/// What is at the path of the new pool.
enum State {
    /// What an addition that was interrupted prepared.
    Prepared,
    /// Something else that may be used; `force`: it may be overwritten.
    Unused { force: bool },
}

/// Look at what is there. Refuses a pool of a volume.
fn state_of(found: &Found, request: &PoolRequest, force: bool) -> Result<State, VolumeError> {
    let Ok(file) = open_carefully(&request.path, 0) else {
        return Ok(State::Unused { force });
    };
    let identity = FileIdentity::of(&file);
    let identity = identity
        .map_err(|error| io_failure("look at pool", &request.path, &error, "check the device"))?;
    let path = request.path.display();
    for known in found.files.iter().flatten() {
        if FileIdentity::of(known).is_ok_and(|known| known == identity) {
            return Err(failure(
                libc::EEXIST,
                format!("{path} is a pool of this volume already; name another file"),
            ));
        }
    }
    let Ok((there, _)) = read_superblock(&file, &request.path) else {
        return Ok(State::Unused { force });
    };
    let current = &found.superblock;
    let is_resumed = there.volume == current.volume
        && there.secret == current.secret
        && there.pool_index as usize == current.pools.len()
        && there.generation == current.generation + 1;
    if !is_resumed && !force {
        return Err(failure(
            libc::EEXIST,
            format!(
                "{path} is pool {} of volume {}; use another file, or --force to destroy that volume",
                there.pool_index,
                uuid::Uuid::from_bytes(there.volume)
            ),
        ));
    }
    // One of another size is made again.
    let as_asked = |sibling: &Sibling| {
        let bytes = sibling.blocks * BLOCK as u64;
        request
            .bytes
            .is_none_or(|wanted| wanted / BLOCK as u64 * BLOCK as u64 == bytes)
    };
    if is_resumed && there.pools.last().is_some_and(as_asked) {
        Ok(State::Prepared)
    } else {
        Ok(State::Unused { force: true })
    }
}

/// All pools of a volume have one owner.
fn check_owner(found: &Found, path: &Path) -> Result<(), VolumeError> {
    let (theirs, _): (Owner, _) = open_pool(path)?;
    if found.owner == Some(theirs) {
        return Ok(());
    }
    Err(failure(
        libc::EPERM,
        format!(
            "{} is not shared with the same users as the pools of the volume; give it their owner, group and mode, then add it again",
            path.display()
        ),
    ))
}

fn add_to(
    old: &[&Pool],
    new: &Pool,
    current: &Superblock,
    sibling: Sibling,
) -> Result<(), VolumeError> {
    let index = old.len() as u8;
    let geometry = Geometry::new(index, sibling.blocks);
    let mut pools = current.pools.clone();
    pools.push(sibling);
    let grown = Superblock {
        pool_index: 0,
        generation: current.generation + 1,
        pools,
        ..current.clone()
    };
    prepare(new, &geometry, &grown).map_err(|error| failure(libc::EIO, error.to_string()))?;
    let mut all = old.to_vec();
    all.push(new);
    put_in_force(&all, &grown)
}

/// Make an empty pool of the volume. Superblocks come last, so that what names the volume has valid metadata.
fn prepare(new: &Pool, geometry: &Geometry, grown: &Superblock) -> egeria_media::Result<()> {
    if !is_prepared(new, grown) {
        zero_blocks(new, 0, geometry.data_block.0)?;
    }
    let own = Superblock {
        pool_index: (grown.pools.len() - 1) as u8,
        ..grown.clone()
    };
    // Their fences make what was erased durable, too.
    write_copies(new, &own.encode())
}

fn is_prepared(new: &Pool, grown: &Superblock) -> bool {
    superblock_of(new).is_ok_and(|(there, _)| {
        let index = there.pool_index as usize;
        let same = Superblock {
            pool_index: 0,
            ..there
        };
        same == *grown && index + 1 == grown.pools.len()
    })
}
