//! What does an action.

use egeria_facts::Facts;
use egeria_policy::{Action, ActionKind, ActionOutcome};

/// Does some kinds of actions, and undoes them.
///
/// Whatever outlives the actuator's process is written to a journal before it is done, so that the next one can
/// undo it. Nothing is widened beyond what an owner allowed.
pub trait Actuator {
    /// The kinds that [`Actuator::apply`] takes.
    fn kinds(&self) -> &[ActionKind];

    /// Does one action and verifies that it is done. `facts` are those that the action was decided on.
    fn apply(&mut self, action: &Action, facts: &Facts) -> ActionOutcome;

    /// A window has passed: what is about threads that are gone can be forgotten.
    fn forget_gone(&mut self, facts: &Facts) {
        let _ = facts;
    }

    /// Undoes what was done, as far as undoing means something. Says for how many threads, processes or nodes.
    fn undo(&mut self) -> usize {
        0
    }
}
