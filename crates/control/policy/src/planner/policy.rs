//! What decides: the planner, or code of your own.

use std::fmt;

use egeria_facts::Facts;
use egeria_machine::Machine;

use super::availability::Unavailable;
use super::decision::Decision;
use super::ledger::Balance;
use super::settings::Settings;
use crate::{ActionKind, ActionResult};

/// Decides about one window after the other. The same facts in the same order give the same decisions: there is no
/// clock and no I/O here, so that the steward, a replay and the simulator run the same code.
pub trait Policy: fmt::Debug + Send {
    /// The decision about one window. The next call gets the next window, in which this decision was carried out. The
    /// machine is always the one that the policy was made for.
    fn decide(&mut self, machine: &Machine, facts: &Facts) -> Decision;

    /// Takes the results of earlier actions, before the next decision.
    fn learn(&mut self, _results: &[ActionResult]) {}

    /// Stages that the settings ask for, and that are off because no actuator takes their actions.
    fn unavailable(&self) -> &[Unavailable] {
        &[]
    }

    /// What all processes have spent on moves, and may spend; `None` without a budget.
    fn budget(&self) -> Option<Balance> {
        None
    }
}

/// Makes a policy without history, for a machine, settings, and the kinds of actions that can be carried out.
pub type Make = fn(&Machine, &Settings, &[ActionKind]) -> Box<dyn Policy>;
