//! Actuators: they carry out actions.

use crate::{Action, ActionKind, ActionOutcome};
use egeria_facts::Facts;

/// Carries out some kinds of actions, and undoes them.
///
/// An effect that outlives the actuator's process is written to a journal before it is applied, so that the next
/// actuator can undo it. Nothing is widened beyond what an owner allowed.
pub trait Actuator {
    /// The kinds that [`Actuator::apply`] takes.
    fn kinds(&self) -> &[ActionKind];

    /// Carries out one action and verifies that it took effect. `facts` are those that the action was decided on.
    fn apply(&mut self, action: &Action, facts: &Facts) -> ActionOutcome;

    /// The actions of a window have been applied: go on with what takes several windows. Called once in each window.
    fn end_window(&mut self, _facts: &Facts) {}

    /// Whether an action that was applied takes further windows, so that it cannot be judged yet.
    fn is_under_way(&self, _action: &Action) -> bool {
        false
    }

    /// Undoes the actions that can be undone. Returns for how many threads, processes or nodes.
    fn undo(&mut self) -> usize {
        0
    }
}
