//! What migration costs, and which process may pay it (§4.2, Step 4).

use super::settings::Settings;
use egeria_facts::ProcessAccesses;

/// Spent, needed and allowed, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Account {
    pub(super) spent_ns: u64,
    pub(super) cost_ns: u64,
    pub(super) allowed_ns: u64,
}

impl Account {
    /// The account of a process if this number of bytes is moved.
    pub(super) fn of(facts: &ProcessAccesses, bytes: u64, settings: &Settings) -> Account {
        Account {
            spent_ns: facts.migrating_ns,
            cost_ns: cost_ns(bytes, settings),
            allowed_ns: (facts.running_ns as f64 * settings.budget) as u64,
        }
    }

    /// Whether all of it is within the budget.
    pub(super) fn is_affordable(self) -> bool {
        self.spent_ns.saturating_add(self.cost_ns) <= self.allowed_ns
    }
}

/// The cost of moving this number of bytes, ns, rounded up: 1 s/GB is 1 ns/byte.
pub(super) fn cost_ns(bytes: u64, settings: &Settings) -> u64 {
    (bytes as f64 * settings.cost_s_per_gb).ceil() as u64
}
