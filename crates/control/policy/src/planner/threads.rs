//! Stages 2 to 5: single threads, within the budget.

use std::collections::{BTreeMap, HashMap};

use egeria_facts::{Facts, ThreadKey, Window};
use egeria_machine::{Machine, NodeId};

use super::Planner;
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
            self.pay_for_the_way_back(facts);
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
        if self.trials.is_trying() {
            for thread in &facts.window.threads {
                held.entry(thread.key).or_insert(thread.node);
            }
        }
        self.undo.held(facts, &mut held);
        self.compare.held(facts, &mut held);
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

    /// Charges processes whose threads go back; threads of those that may not pay stay where they are.
    fn pay_for_the_way_back(&mut self, facts: &Facts) {
        let counts = thread_counts(&facts.window);
        let budget = &self.settings.budget;
        let mut goers: BTreeMap<u32, u32> = BTreeMap::new();
        for key in self.compare.goers() {
            *goers.entry(key.process_id).or_default() += 1;
        }
        let costs = goers.into_iter().map(|(process, moved)| {
            let threads = counts.get(&process).copied().unwrap_or_default();
            (process, pause_ns(moved, threads, budget.thread_move_ns))
        });
        let costs: Vec<(u32, u64)> = costs.collect();
        let ways = self.compare.ways();
        let affords = |(process, cost_ns): &(u32, u64)| {
            let balance = self.ledger.balance(*process, budget);
            balance.affords(cost_ns.saturating_mul(ways))
        };
        if costs.iter().all(affords) {
            (costs.into_iter()).for_each(|(process, ns)| self.ledger.charge(process, ns))
        } else {
            self.compare.give_up()
        }
        for (process, moved) in moved(&self.undo.steps_back(facts)) {
            let threads = counts.get(&process).copied().unwrap_or_default();
            let cost_ns = pause_ns(moved, threads, budget.thread_move_ns);
            if self.ledger.balance(process, budget).affords(cost_ns) {
                self.ledger.charge(process, cost_ns)
            } else {
                self.undo.leave(facts, process)
            }
        }
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
            .filter_map(|step| self.planner.setbacks.refuses(step))
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
    let mut counts = BTreeMap::new();
    for thread in &window.threads {
        *counts.entry(thread.key.process_id).or_default() += 1;
    }
    counts
}

/// Threads of each process that move.
fn moved(steps: &[Move]) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    for step in steps {
        *counts.entry(step.thread.process_id).or_default() += 1;
    }
    counts
}
