//! Which accesses of striped files are delegated (OdinFS).

use std::num::NonZeroU8;
use std::sync::Arc;

use egeria_engine::{DelegationRule, Errno, Volume};
use egeria_facts::Facts;
use egeria_policy::control::Actuator;
use egeria_policy::planner::{DelegationPlan, MOST_DELEGATES};
use egeria_policy::{Action, ActionKind, ActionOutcome};

/// Sets a volume's rule of delegation, which all users of the volume follow. It ends with the session. The next
/// planner lifts what a killed planner left there when it begins.
pub struct AccessDelegation {
    volume: Arc<Volume>,
}

impl AccessDelegation {
    /// Lifts the rule that another planner left.
    pub fn begin(volume: Arc<Volume>) -> AccessDelegation {
        let _ = volume.set_delegation(None, false);
        AccessDelegation { volume }
    }
}

/// The rule of a plan for a volume. Stripes are those of the files.
fn rule_of(plan: &DelegationPlan) -> Option<DelegationRule> {
    let DelegationPlan::On {
        min_read_bytes,
        min_write_bytes,
        delegates_per_node,
        ..
    } = *plan
    else {
        return None;
    };
    let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let delegates = delegates_per_node.min(MOST_DELEGATES) as u8;
    Some(DelegationRule {
        delegates: NonZeroU8::new(delegates)?,
        min_read_bytes: bytes(min_read_bytes),
        min_write_bytes: bytes(min_write_bytes),
        always: false,
    })
}

impl Actuator for AccessDelegation {
    fn kinds(&self) -> &[ActionKind] {
        &[ActionKind::Delegation]
    }

    fn apply(&mut self, action: &Action, _: &Facts) -> ActionOutcome {
        let Action::SetDelegation { plan } = action else {
            return ActionOutcome::NoActuator;
        };
        let rule = rule_of(plan);
        match self.volume.set_delegation(rule, false) {
            Ok(()) => ActionOutcome::Done,
            Err(Errno(libc::EBUSY)) => ActionOutcome::Refused {
                reason: "delegation was set by hand".to_owned(),
            },
            Err(errno) => ActionOutcome::Refused {
                reason: format!("delegation cannot be set: {errno}"),
            },
        }
    }

    fn undo(&mut self) -> usize {
        let is_on = matches!(self.volume.delegation(), (Some(_), false));
        let _ = self.volume.set_delegation(None, false);
        usize::from(is_on)
    }
}

impl Drop for AccessDelegation {
    fn drop(&mut self) {
        self.undo();
    }
}
