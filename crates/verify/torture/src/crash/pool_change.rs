//! Changes of a volume's pools, cut off.

use egeria_engine::format::BLOCK;
use egeria_engine::*;
use egeria_media::Pool;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A change of a volume that no process has attached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolChange {
    /// The last pool is added to the volume on the others.
    Add,
    /// The last pool is drained.
    Drain,
    /// The last pool is drained. A block of a file on it cannot be read, and is given up.
    GiveUp,
    /// The last pool is removed.
    Remove,
    /// The format is upgraded.
    Upgrade,
}

impl PoolChange {
    pub(super) fn run(
        self,
        pools: &[Arc<Pool>],
        memory: &mut PrivateMemory,
    ) -> Result<(), VolumeError> {
        let last = pools.len() as u8 - 1;
        match self {
            PoolChange::Add => add_pool_private(pools),
            PoolChange::Drain | PoolChange::GiveUp => {
                let volume = Volume::attach_private(pools, memory, &AttachOptions::default())?;
                let mut ignored = |_| ();
                let unreadable = match self {
                    PoolChange::GiveUp => Unreadable {
                        bad: a_block_in_use(&volume, last).into_iter().collect(),
                        give_up: Some(&mut ignored),
                    },
                    _ => Unreadable::default(),
                };
                volume.drain(last, unreadable, &mut |_| true).map(drop)
            }
            PoolChange::Remove => remove_pool_private(pools, memory, last).map(drop),
            PoolChange::Upgrade => upgrade_private(pools).map(drop),
        }
    }
}

/// Bytes of the second block that a file without checksums has on a pool.
fn a_block_in_use(volume: &Volume, pool: u8) -> Option<Range<u64>> {
    let extents = ["big", "small", "d/x", "e/y"].map(|path| {
        let ino = super::actor::ino(volume, path).ok()?;
        let mut extents = volume.extents(ino).ok()?.into_iter();
        extents.find(|extent| extent.pool == pool && !extent.unwritten)
    });
    let extent = extents.into_iter().flatten().next()?;
    let in_extent = BLOCK as u64 * u64::from(extent.length_bytes > BLOCK as u64);
    let first = extent.block * BLOCK as u64 + in_extent;
    Some(first..first + BLOCK as u64)
}

impl fmt::Display for PoolChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            PoolChange::Add => "a pool is added",
            PoolChange::Drain => "a pool is drained",
            PoolChange::GiveUp => "a pool with a bad block is drained",
            PoolChange::Remove => "a pool is removed",
            PoolChange::Upgrade => "a volume is upgraded",
        })
    }
}
