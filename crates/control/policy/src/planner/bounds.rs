//! Programs that do not ask for admission (MBA): the stage `mba`, and what it would do where it is off.

use egeria_facts::Facts;
use egeria_machine::Machine;

use super::{Limit, Planner, Stage};
use crate::mba::{self, MbaPlan, UnboundBecause};

impl Planner {
    /// The stage `mba`. It knows the limits of this window.
    pub(super) fn bound(&mut self, machine: &Machine, facts: &Facts, limits: &[Limit]) -> MbaPlan {
        if facts.memories.is_empty() && !self.settings.stages.mba {
            return MbaPlan::default();
        }
        let limit = |node| {
            let mut limits = limits.iter();
            let limit = limits.find(|limit| limit.node == node);
            limit.map(|limit| limit.threads)
        };
        let plan = self.mba.next(&mba::Basis {
            machine,
            facts,
            window: &self.owners.memory_window(machine, facts),
            limit: &limit,
            settings: &self.settings.mba,
        });
        let MbaPlan::On { because, .. } = &plan else {
            return plan;
        };
        let memory = *because;
        let mut unavailable = self.unavailable.iter();
        let because = if unavailable.any(|each| each.stage == Stage::Mba) {
            UnboundBecause::NoActuator { memory }
        } else if !self.settings.stages.mba {
            UnboundBecause::NotAllowed { memory }
        } else if self.settings.stages.feedback && self.experiments.setbacks.keep_unbounded() {
            UnboundBecause::BroughtTooLittle
        } else {
            return plan;
        };
        self.mba.end();
        MbaPlan::Off { because }
    }
}
