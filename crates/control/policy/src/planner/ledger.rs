//! What processes have spent on moves, and may spend (AsymSched §4.2, Step 4, for all that moves).
//!
//! ```text
//!   spent = A_tm                      memory of its own, as measured
//!         + what it owes              memory that was ordered to follow, as far as it is not in A_tm yet
//!         + moves of threads          thread_move_ns x moved / threads of the process
//!         + copies of its files       what copying takes from memories and links in use
//!   allowed = share x running time
//! ```
//!
//! Everything but `A_tm` is charged when it is ordered, in full, whether it is done or not. So `spent <= allowed` holds
//! after every window, as far as costs are right.

use std::collections::BTreeMap;

use egeria_facts::{AccessWindow, Facts, ProcessKey};
use serde::Serialize;

use super::settings::Budget;
use crate::asymsched::{Following, MemoryAction, MemoryCost, PlacementPlan};

/// A cost that was ordered and does not appear in `A_tm` for this number of windows will not appear any more.
const FORGET_WINDOWS: u32 = 16;

/// All accounts, by process id. None is dropped: a process that comes back keeps its debts.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    accounts: BTreeMap<u32, Account>,
}

/// What may be spent on moves, and what was spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Balance {
    /// What was spent, ns.
    pub spent_ns: u64,
    /// What may be spent in all until now, ns.
    pub allowed_ns: u64,
}

impl Balance {
    /// Whether this cost may be spent in addition.
    pub(super) fn affords(self, cost_ns: u64) -> bool {
        self.spent_ns.saturating_add(cost_ns) <= self.allowed_ns
    }
}

#[derive(Clone, Debug, Default)]
struct Account {
    /// How long its threads were seen, ns.
    seen_ns: u64,
    /// How long it ran, as its facts say, ns.
    running_ns: u64,
    /// `A_tm`, ns.
    migrating_ns: u64,
    /// Moves of threads and copies of files, ns.
    spent_ns: u64,
    /// Cost of memory that may still appear in `A_tm`, ns.
    owed_ns: u64,
    /// Whether its memory follows: AsymSched counts what it owes then, too.
    follows: bool,
    /// Windows without an increase of `A_tm`.
    still_windows: u32,
}

impl Account {
    fn spent_ns(&self) -> u64 {
        self.migrating_ns
            .saturating_add(self.owed_ns)
            .saturating_add(self.spent_ns)
    }
}

impl Ledger {
    /// A window has passed.
    pub(super) fn pass(&mut self, facts: &Facts) {
        let mut seen: Vec<u32> = Vec::new();
        for thread in &facts.window.threads {
            seen.push(thread.key.process_id);
        }
        seen.sort_unstable();
        seen.dedup();
        for process in seen {
            let account = self.accounts.entry(process).or_default();
            account.seen_ns = account.seen_ns.saturating_add(facts.window.duration_ns);
        }
        for process in &facts.accesses.processes {
            let account = self.accounts.entry(process.process.process_id).or_default();
            account.running_ns = process.running_ns;
            let came_ns = process.migrating_ns.saturating_sub(account.migrating_ns);
            account.migrating_ns = process.migrating_ns.max(account.migrating_ns);
            account.owed_ns = account.owed_ns.saturating_sub(came_ns);
            account.still_windows = match came_ns {
                0 => account.still_windows.saturating_add(1),
                _ => 0,
            };
            if !account.follows && account.still_windows >= FORGET_WINDOWS {
                account.owed_ns = 0;
            }
        }
    }

    pub(super) fn balance(&self, process: u32, settings: &Budget) -> Balance {
        let Some(account) = self.accounts.get(&process) else {
            return Balance {
                spent_ns: 0,
                allowed_ns: 0,
            };
        };
        let running_ns = account.running_ns.max(account.seen_ns);
        Balance {
            spent_ns: account.spent_ns(),
            allowed_ns: (running_ns as f64 * settings.share) as u64,
        }
    }

    /// What was spent on moves besides memory, and what is owed for memory, ns.
    pub(super) fn others_ns(&self, process: u32) -> u64 {
        let account = self.accounts.get(&process);
        account.map_or(0, |account| {
            account.spent_ns.saturating_add(account.owed_ns)
        })
    }

    /// All processes together.
    pub(super) fn total(&self, settings: &Budget) -> Balance {
        let mut total = Balance {
            spent_ns: 0,
            allowed_ns: 0,
        };
        for process in self.accounts.keys() {
            let of_one = self.balance(*process, settings);
            total.spent_ns = total.spent_ns.saturating_add(of_one.spent_ns);
            total.allowed_ns = total.allowed_ns.saturating_add(of_one.allowed_ns);
        }
        total
    }

    /// Charges a process.
    pub(super) fn charge(&mut self, process: u32, cost_ns: u64) {
        let account = self.accounts.entry(process).or_default();
        account.spent_ns = account.spent_ns.saturating_add(cost_ns);
    }

    /// Passes other spending to AsymSched, so that it stays within the rest. It adds one pause of a thread, for the
    /// moves that AsymSched may order now.
    pub(super) fn tell(
        &self,
        window: &mut AccessWindow,
        following: &[(ProcessKey, Following)],
        settings: &Budget,
    ) {
        for process in &mut window.processes {
            let Some(account) = self.accounts.get(&process.process.process_id) else {
                continue;
            };
            let is_following = following.iter().any(|(other, _)| *other == process.process);
            let owed_ns = if is_following { 0 } else { account.owed_ns };
            process.migrating_ns = account
                .migrating_ns
                .saturating_add(owed_ns)
                .saturating_add(account.spent_ns)
                .saturating_add(settings.thread_move_ns);
            process.running_ns = process.running_ns.max(account.seen_ns);
        }
    }

    /// Charges the cost of a placement: pauses of the threads that move, and memory that follows.
    pub(super) fn book(
        &mut self,
        window: &AccessWindow,
        plan: &PlacementPlan,
        costs: &Costs,
        arriving: &[ProcessKey],
    ) {
        for process in &window.processes {
            let id = process.process.process_id;
            let own = plan
                .moves
                .iter()
                .filter(|step| step.process == process.process);
            let (mut bytes, mut moved) = (0u64, 0u32);
            for step in own {
                bytes = bytes.saturating_add(step.resident_bytes);
                moved = moved.saturating_add(step.threads);
            }
            let account = self.accounts.entry(id).or_default();
            if moved > 0 {
                let all = process.nodes.iter().map(|each| each.threads);
                let pause_ns = pause_ns(
                    moved,
                    all.fold(0, u32::saturating_add),
                    costs.thread_move_ns,
                );
                account.spent_ns = account.spent_ns.saturating_add(pause_ns);
                if bytes > 0 {
                    account.owe(costs.memory.ns(bytes));
                }
            }
            let steps = plan
                .memory
                .iter()
                .filter(|step| step.process == process.process);
            for step in steps {
                match &step.action {
                    MemoryAction::Full { cost_ns, .. } | MemoryAction::Gather { cost_ns, .. } => {
                        account.owe(*cost_ns);
                    }
                    MemoryAction::Settled { .. } => account.owed_ns = 0,
                    MemoryAction::Dynamic | MemoryAction::Short { .. } => {}
                }
            }
            account.follows = plan
                .following
                .iter()
                .any(|(other, _)| *other == process.process)
                || arriving.contains(&process.process);
        }
    }
}

impl Account {
    fn owe(&mut self, cost_ns: u64) {
        (self.owed_ns, self.still_windows) = (cost_ns, 0);
    }
}

/// What moving costs.
pub(super) struct Costs {
    pub(super) thread_move_ns: u64,
    pub(super) memory: MemoryCost,
}

/// The cost for a process if `moved` of its threads move, ns, rounded up.
pub(super) fn pause_ns(moved: u32, threads: u32, thread_move_ns: u64) -> u64 {
    let pauses_ns = u64::from(moved).saturating_mul(thread_move_ns);
    pauses_ns.div_ceil(u64::from(threads.max(moved).max(1)))
}
