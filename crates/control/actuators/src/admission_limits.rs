//! Limits of how many threads access the memory of a node at once (PATS).

use std::num::NonZeroU32;
use std::sync::Arc;

use egeria_engine::{Errno, LimitedBy, Volume};
use egeria_facts::Facts;
use egeria_machine::{Machine, NodeId};
use egeria_media::PoolIndex;
use egeria_policy::control::Actuator;
use egeria_policy::{Action, ActionKind, ActionOutcome};

/// Sets limits in a volume's session, which all users of the volume obey. They end with the session. The next planner
/// lifts what a killed planner left there when it begins.
pub struct AdmissionLimits {
    volume: Arc<Volume>,
    machine: Machine,
}

impl AdmissionLimits {
    /// Lifts limits that another planner left, and starts counting requests.
    ///
    /// # Errors
    /// `ENOMEM` when the session's memory has no room.
    pub fn begin(volume: Arc<Volume>, machine: &Machine) -> Result<AdmissionLimits, Errno> {
        volume.lift_planned_limits()?;
        volume.measure_admission(true)?;
        Ok(AdmissionLimits {
            volume,
            machine: machine.clone(),
        })
    }

    fn limit(&self, node: NodeId, limit: Option<NonZeroU32>) -> ActionOutcome {
        let Some(position) = self.machine.index_of(node) else {
            return ActionOutcome::Vanished;
        };
        let pools = 0..self.volume.pool_nodes().len();
        for pool in pools.filter(|pool| self.volume.node_position(*pool) == position) {
            let index = PoolIndex(pool as u8);
            if let Err(errno) = self
                .volume
                .limit_admission(index, limit, LimitedBy::Planner)
            {
                let reason = match errno.0 {
                    libc::EBUSY => format!("the limit of pool {pool} was set by hand"),
                    _ => format!("the limit of pool {pool} cannot be set: {errno}"),
                };
                return ActionOutcome::Refused { reason };
            }
            if self.volume.admission(false)[pool].limit != limit {
                let reason = format!("somebody else changed the limit of pool {pool}");
                return ActionOutcome::Refused { reason };
            }
        }
        ActionOutcome::Done
    }
}

impl Actuator for AdmissionLimits {
    fn kinds(&self) -> &[ActionKind] {
        &[ActionKind::AdmissionLimit]
    }

    fn apply(&mut self, action: &Action, _: &Facts) -> ActionOutcome {
        match action {
            Action::SetLimit(limit) => {
                self.limit(limit.node, NonZeroU32::new(limit.threads.max(1)))
            }
            Action::LiftLimit { node } => self.limit(*node, None),
            _ => ActionOutcome::NoActuator,
        }
    }

    fn undo(&mut self) -> usize {
        let limited = self.volume.admission(false);
        let limited = limited.iter().filter(|pool| pool.limit.is_some()).count();
        let _ = self.volume.lift_planned_limits();
        let left = self.volume.admission(false);
        limited - left.iter().filter(|pool| pool.limit.is_some()).count()
    }
}

impl Drop for AdmissionLimits {
    fn drop(&mut self) {
        self.undo();
        let _ = self.volume.measure_admission(false);
    }
}
