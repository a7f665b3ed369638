//! Running a workload, whichever it is.

use super::judge::{Kind, LegalState};
use super::pool_change::PoolChange;
use super::workload::Workload;
use super::workspace::{Recorded, Workspace};
use egeria_engine::{AttachOptions, Volume};

impl Workspace {
    /// Run a workload; `None` when it changes nothing on media.
    pub(super) fn record(&mut self, workload: &Workload) -> Result<Option<Recorded>, String> {
        match workload {
            Workload::Sequence { operations, loaded } => {
                let (_, prefix) = operations
                    .split_last()
                    .ok_or("a sequence of no operation")?;
                let before = self.after(prefix)?;
                self.record_last(operations, &before, *loaded)
            }
            Workload::Long { operations } => self.record_long(operations).map(Some),
            Workload::Pair { operations, switch } => {
                self.record_pair(operations, switch.unwrap_or(usize::MAX))
            }
            Workload::Making => self.record_making().map(Some),
            Workload::Repair => self.record_repair().map(Some),
            Workload::PoolChange(change) => self.record_pool_change(*change).map(Some),
        }
    }

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
