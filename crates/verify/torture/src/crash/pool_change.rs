//! Changes of a volume's pools, cut off.

use egeria_engine::*;
use egeria_media::Pool;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// A change of a volume that no process has attached.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolChange {
    /// The last pool is added to the volume on the others.
    Add,
    /// The last pool is drained.
    Drain,
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
            PoolChange::Drain => {
                let volume = Volume::attach_private(pools, memory, &AttachOptions::default())?;
                volume
                    .drain(last, Unreadable::default(), &mut |_| true)
                    .map(drop)
            }
            PoolChange::Remove => remove_pool_private(pools, memory, last).map(drop),
            PoolChange::Upgrade => upgrade_private(pools).map(drop),
        }
    }
}

impl fmt::Display for PoolChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            PoolChange::Add => "a pool is added",
            PoolChange::Drain => "a pool is drained",
            PoolChange::Remove => "a pool is removed",
            PoolChange::Upgrade => "a volume is upgraded",
        })
    }
}
