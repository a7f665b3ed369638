//! The stages of single threads (NThread, `bandwidth`), within the budget.

use std::collections::{BTreeMap, HashMap};

use egeria_facts::{Facts, ThreadKey, Window};
use egeria_machine::{Machine, NodeId};

use super::Planner;
use super::experiments::by_process;
use super::ledger::{Balance, pause_ns};
use super::owners::memory_flows;
use crate::asymsched::PlacementPlan;
use crate::nthread::{self, Guide, Roads};
use crate::{Kept, KeptBecause, Move, Plan};

/// Processes that may not pay are held one round after another; after this number of rounds all are.
const ROUNDS: u32 = 8;

/// What the moves of a process cost, and why it may not pay.
struct Unpaid {
    balance: Balance,
    cost_ns: u64,
}

/// The thread stages of one window in progress.
struct Stage<'a> {
    planner: &'a Planner,
    machine: &'a Machine,
    facts: &'a Facts,
    placement: &'a PlacementPlan,
    /// Threads of each process.
    counts: BTreeMap<u32, u32>,
}

impl Planner {
    /// NThread's plan. Threads that other policies decide about are at their new places in it.
    pub(super) fn move_threads(
        &mut self,
        machine: &Machine,
        facts: &Facts,
        placement: &PlacementPlan,
    ) -> Plan {
        if self.settings.stages.budget {
            self.pay_for_experiments(facts);
        }
        let stage = Stage {
            planner: self,
            machine,
            facts,
            counts: thread_counts(&facts.window),
            placement,
        };
        let mut held = if self.settings.moves_threads() {
            self.owners.held(facts, placement)
        } else {
            HashMap::new()
        };
        self.experiments.held(facts, &mut held);
        let awaiting = self.relocations.awaiting(facts);
        for thread in &facts.window.threads {
            if awaiting.contains(&thread.key) {
                held.entry(thread.key).or_insert(thread.node);
            }
        }
        if !self.settings.stages.budget && !self.settings.stages.feedback {
            return stage.plan(held);
        }
        let plan = stage.within_bounds(held);
        if !self.settings.stages.budget {
            return plan;
        }
        let costs: Vec<(u32, u64)> = moved(&plan.moves)
            .into_iter()
            .map(|(process, moved)| (process, stage.cost_ns(process, moved)))
            .collect();
        for (process, cost_ns) in costs {
            self.ledger.charge(process, cost_ns);
        }
        plan
    }

    /// Charges processes with threads that experiments send somewhere, if they can pay.
    fn pay_for_experiments(&mut self, facts: &Facts) {
        let counts = thread_counts(&facts.window);
        let (budget, ledger) = (&self.settings.budget, &mut self.ledger);
        self.experiments.pay(facts, |moved, times| {
            let cost_ns = |(process, moved): (&u32, &u32)| {
                let threads = counts.get(process).copied().unwrap_or_default();
                (*process, pause_ns(*moved, threads, budget.thread_move_ns))
            };
            let costs: Vec<(u32, u64)> = moved.iter().map(cost_ns).collect();
            let affords = |(process, cost_ns): &(u32, u64)| {
                let balance = ledger.balance(*process, budget);
                balance.affords(cost_ns.saturating_mul(times))
            };
            let is_paid = costs.iter().all(affords);
            if is_paid {
                (costs.into_iter()).for_each(|(process, ns)| ledger.charge(process, ns));
            }
            is_paid
        });
    }
}

impl Stage<'_> {
    fn plan(&self, held: HashMap<ThreadKey, NodeId>) -> Plan {
        let planner = self.planner;
        let flows = memory_flows(self.machine, &self.facts.accesses, self.placement);
        let paths = planner.paths.as_ref();
        let paths = paths.filter(|_| planner.settings.stages.bandwidth);
        let nodes = self.machine.nodes.len();
        let roads = paths.map(|paths| Roads::new(paths, nodes, flows.into_iter()));
        let displaced = planner.threads.as_ref().map(Plan::displaced_homes);
        let guide = Guide {
            displaced: displaced.unwrap_or_default(),
            held,
            roads,
        };
        nthread::guided(
            self.machine,
            &self.facts.window,
            &planner.settings.nthread,
            guide,
        )
    }

    /// The plan, made again without moves that brought too little before and without moves of processes that may not
    /// pay, until none is left to refuse.
    fn within_bounds(&self, mut held: HashMap<ThreadKey, NodeId>) -> Plan {
        let mut plan = self.plan(held.clone());
        let mut kept: Vec<Kept> = Vec::new();
        for round in 0..=ROUNDS {
            let useless: Vec<Kept> = self.useless(&plan);
            let unpaid = self.unpaid(&plan);
            if unpaid.is_empty() && useless.is_empty() {
                break;
            }
            for each in &useless {
                held.entry(each.thread).or_insert(each.node);
            }
            kept.extend(useless);
            kept.extend(plan.moves.iter().filter_map(|step| refused(step, &unpaid)));
            let stays = |process: &u32| round == ROUNDS || unpaid.contains_key(process);
            for thread in &self.facts.window.threads {
                if stays(&thread.key.process_id) {
                    held.entry(thread.key).or_insert(thread.node);
                }
            }
            plan = self.plan(held.clone());
        }
        plan.kept.extend(kept);
        plan.kept.sort_by_key(|kept| kept.thread);
        plan.kept.dedup_by_key(|kept| kept.thread);
        plan
    }

    /// The moves that brought too little when they were made before.
    fn useless(&self, plan: &Plan) -> Vec<Kept> {
        if !self.planner.settings.stages.feedback {
            return Vec::new();
        }
        let refused = plan.moves.iter();
        refused
            .filter_map(|step| self.planner.experiments.setbacks.refuses(step))
            .collect()
    }

    /// The processes that may not pay for their moves.
    fn unpaid(&self, plan: &Plan) -> BTreeMap<u32, Unpaid> {
        if !self.planner.settings.stages.budget {
            return BTreeMap::new();
        }
        let unpaid = |(process, moved): (u32, u32)| {
            let cost_ns = self.cost_ns(process, moved);
            let budget = &self.planner.settings.budget;
            let balance = self.planner.ledger.balance(process, budget);
            (!balance.affords(cost_ns)).then_some((process, Unpaid { balance, cost_ns }))
        };
        moved(&plan.moves).into_iter().filter_map(unpaid).collect()
    }

    fn cost_ns(&self, process: u32, moved: u32) -> u64 {
        let threads = self.counts.get(&process).copied().unwrap_or_default();
        let thread_move_ns = self.planner.settings.budget.thread_move_ns;
        pause_ns(moved, threads, thread_move_ns)
    }
}

fn refused(step: &Move, unpaid: &BTreeMap<u32, Unpaid>) -> Option<Kept> {
    let unpaid = unpaid.get(&step.thread.process_id)?;
    Some(Kept {
        thread: step.thread,
        node: step.from,
        wanted: Some(step.to),
        because: KeptBecause::OverBudget {
            spent_ns: unpaid.balance.spent_ns,
            cost_ns: unpaid.cost_ns,
            allowed_ns: unpaid.balance.allowed_ns,
        },
    })
}

/// Threads of each process.
fn thread_counts(window: &Window) -> BTreeMap<u32, u32> {
    by_process(window.threads.iter().map(|thread| &thread.key))
}

/// Threads of each process that move.
fn moved(steps: &[Move]) -> BTreeMap<u32, u32> {
    by_process(steps.iter().map(|step| &step.thread))
}
