//! Upgrading a volume to the newest format, in place.
//!
//! A newer version only gives a meaning to bytes that older versions leave zero: the layout in certificates (version 4),
//! moves in records (5), the generation in superblocks (6). So nothing but the superblocks changes, and the upgrade
//! happens when the first superblock of pool 0 is whole. A release that knows only the old version refuses the volume
//! from the moment at which both copies of pool 0 are new. Until then it finds the old volume, which is whole, too.

use crate::attach::attach_volume::{lock_for_check, map_pools};
use crate::attach::pools::find_pools;
use crate::attach::private::agreed_superblock;
use crate::attach::superblocks::put_in_force;
use crate::format::*;
use crate::requests::*;
use egeria_media::Pool;
use std::path::Path;
use std::sync::Arc;

/// What an upgrade did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upgraded {
    /// Volume that was upgraded.
    pub volume: uuid::Uuid,
    /// Version before.
    pub from: u32,
    /// Version now.
    pub to: u32,
}

/// Upgrade the volume of a pool to [`FORMAT_VERSION`]. A volume of that version stays as it is.
///
/// # Errors
/// `EBUSY` when a process has it attached; `EPROTO` for version 2, and for a version this program does not know; else
/// as [`crate::Volume::attach`].
pub fn upgrade_volume(pool: &Path) -> Result<Upgraded, VolumeError> {
    FaultHandling::Engine.prepare()?;
    let mut found = find_pools(pool)?;
    let _locks = lock_for_check(&found)?;
    let pools = map_pools(&mut found, false)?;
    let pools: Vec<&Pool> = pools.iter().map(Arc::as_ref).collect();
    upgrade(&pools, &found.superblock, pool)
}

/// Upgrade the volume on these pools.
///
/// # Errors
/// As [`upgrade_volume`].
pub fn upgrade_private(pools: &[Arc<Pool>]) -> Result<Upgraded, VolumeError> {
    let current = agreed_superblock(pools)?;
    let pools: Vec<&Pool> = pools.iter().map(Arc::as_ref).collect();
    upgrade(&pools, &current, Path::new("pool0"))
}

fn upgrade(pools: &[&Pool], current: &Superblock, path: &Path) -> Result<Upgraded, VolumeError> {
    let path = path.display();
    if current.version < FIRST_VERSION_WITH_SECRET {
        return Err(failure(
            libc::EPROTO,
            format!(
                "the volume of {path} has format version {}, in which pools share no secret; copy its files to a new volume",
                current.version
            ),
        ));
    }
    let upgraded = Upgraded {
        volume: uuid::Uuid::from_bytes(current.volume),
        from: current.version,
        to: FORMAT_VERSION,
    };
    if current.version < FORMAT_VERSION {
        let newer = Superblock {
            version: FORMAT_VERSION,
            generation: current.generation + 1,
            ..current.clone()
        };
        put_in_force(pools, &newer)?;
    }
    Ok(upgraded)
}
