//! Changes of a volume's pools, cut off.

use super::judge::{Kind, LegalState};
use super::workspace::{Recorded, Workspace};
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
    fn run(self, pools: &[Arc<Pool>], memory: &mut PrivateMemory) -> Result<(), VolumeError> {
        let last = pools.len() as u8 - 1;
        match self {
            PoolChange::Add => add_pool_private(pools),
            PoolChange::Drain => {
                let volume = Volume::attach_private(pools, memory, &AttachOptions::default())?;
                volume.drain(last, &mut |_| true).map(drop)
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

impl Workspace {
    /// Change the pools of the initial state.
    pub(super) fn record_pool_change(&mut self, change: PoolChange) -> Result<Recorded, String> {
        self.reset();
        let pools = self.pools();
        let changed = change.run(&pools, &mut self.memory);
        changed.map_err(|error| error.to_string())?;
        self.recorder.mark(1);
        let events = self.recorder.drain();
        let volume = Volume::attach_private(&pools, &mut self.memory, &AttachOptions::default());
        let volume = volume.map_err(|error| error.to_string())?;
        let changed = LegalState::of(&volume, Kind::Changing)?;
        Ok(Recorded {
            kind: Kind::Changing,
            recording: events.into(),
            from: 0,
            legal: vec![vec![self.before.clone(), changed.clone()], vec![changed]],
        })
    }
}
