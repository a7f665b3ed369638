//! What migration costs, and which process may pay it (§4.2, Step 4).

use super::cost::MemoryCost;
use egeria_facts::ProcessAccesses;

/// Spent, needed and allowed, ns.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Account {
    pub(super) spent_ns: u64,
    pub(super) cost_ns: u64,
    pub(super) allowed_ns: u64,
    /// What `cost_ns` rests on.
    pub(super) cost: MemoryCost,
}

impl Account {
    /// The account of a process if this number of bytes is moved.
    pub(super) fn of(
        facts: &ProcessAccesses,
        bytes: u64,
        (budget, cost): (f64, MemoryCost),
    ) -> Account {
        Account {
            spent_ns: facts.migrating_ns,
            cost_ns: cost.ns(bytes),
            allowed_ns: (facts.running_ns as f64 * budget) as u64,
            cost,
        }
    }

    /// Whether all of it is within the budget.
    pub(super) fn is_affordable(self) -> bool {
        self.spent_ns.saturating_add(self.cost_ns) <= self.allowed_ns
    }
}
