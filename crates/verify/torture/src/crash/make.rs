//! Making volumes and repairing them, cut off.

use super::initial_state::root;
use super::judge::{CLOCK_NS, Kind, LegalState};
use super::workspace::{Recorded, Workspace};
use egeria_engine::*;

/// Tells the volume that is made from the initial state's.
const SEED_OF_NEW: u64 = 2;

impl Workspace {
    /// Make a volume over what the initial state left.
    pub(super) fn record_making(&mut self) -> Result<Recorded, String> {
        self.reset();
        let pools = self.pools();
        create_private(&pools, SEED_OF_NEW, &root()).map_err(|error| error.to_string())?;
        self.recorder.mark(1);
        let events = self.recorder.drain();
        let volume = Volume::attach_private(&pools, &mut self.memory, &AttachOptions::default());
        let made = LegalState::of(&*volume.map_err(|error| error.to_string())?, Kind::Making)?;
        let before = vec![self.before.clone(), LegalState::refused(), made.clone()];
        Ok(Recorded {
            kind: Kind::Making,
            recording: events.into(),
            from: 0,
            legal: vec![before, vec![made]],
        })
    }

    /// Repair the initial state.
    pub(super) fn record_repair(&mut self) -> Result<Recorded, String> {
        self.reset();
        let pools = self.pools();
        let report = check_private(&pools, &mut self.memory, CLOCK_NS, true);
        let report = report.map_err(|error| error.to_string())?;
        if report.repaired == 0 {
            return Err("the repair found nothing to do".into());
        }
        self.recorder.mark(1);
        let events = self.recorder.drain();
        let volume = Volume::attach_private(&pools, &mut self.memory, &AttachOptions::default());
        let whole = LegalState::of(&*volume.map_err(|error| error.to_string())?, Kind::Repair)?;
        Ok(Recorded {
            kind: Kind::Repair,
            recording: events.into(),
            from: 0,
            legal: vec![vec![whole.clone()], vec![whole]],
        })
    }
}
