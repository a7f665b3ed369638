//! What this stage decides on.

use egeria_facts::{AccessWindow, Facts, ProcessAccesses, ProcessKey};
use egeria_machine::Machine;

use super::settings::Settings;
use crate::asymsched::MemoryCost;

/// One window, and what else a decision needs.
pub(crate) struct Basis<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) facts: &'a Facts,
    /// The accesses of the processes that belong to memory.
    pub(crate) window: &'a AccessWindow,
    pub(crate) settings: &'a Settings,
    pub(crate) cost: MemoryCost,
    /// Part of its running time that may be spent on a process.
    pub(crate) budget: f64,
    /// Processes whose last move brought too little, or whose files are on their way.
    pub(crate) is_resting: &'a dyn Fn(ProcessKey) -> bool,
    /// What moving all threads of a process takes, ns.
    pub(crate) thread_move_ns: u64,
    /// What was spent on moves of a process besides its memory, and what is owed, ns.
    pub(crate) others_ns: &'a dyn Fn(ProcessKey) -> u64,
    /// Processes that may not pay for a move of their threads now.
    pub(crate) is_over_budget: &'a dyn Fn(ProcessKey) -> bool,
    /// Processes with memory that follows threads by another stage.
    pub(crate) is_following: &'a dyn Fn(ProcessKey) -> bool,
}

impl Basis<'_> {
    /// Running time of which the budget may be spent in advance, ns: so much that a process which becomes faster by `gain`
    /// repays it in the time that the settings say.
    pub(super) fn advance_ns(&self, gain: f64) -> u64 {
        let repaid_ns = self.settings.repaid_ms.saturating_mul(1_000_000);
        let times = (gain / self.budget.max(1e-6)).max(1.0);
        // The cast saturates.
        (repaid_ns as f64 * times) as u64
    }

    /// Until the budget of a process is enough for a cost besides `others_ns`, what was spent on other moves, ns. The budget
    /// grows with the running time.
    pub(super) fn wait_ns(
        &self,
        facts: &ProcessAccesses,
        advance_ns: u64,
        others_ns: u64,
        cost_ns: u64,
    ) -> u64 {
        let running_ns = facts.running_ns.saturating_add(advance_ns);
        let allowed_ns = running_ns as f64 * self.budget;
        let spent_ns = facts.migrating_ns as f64 + others_ns as f64;
        let missing_ns = spent_ns + cost_ns as f64 - allowed_ns;
        // The cast saturates.
        (missing_ns.max(0.0) / self.budget.max(1e-6)) as u64
    }
}
