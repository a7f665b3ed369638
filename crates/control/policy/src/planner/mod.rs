//! One planner: what four papers decide separately, as one decision.
//!
//! ```text
//!   owners        file I/O moves single threads, memory moves whole nodes   of each process       owners.rs
//!   together      threads and the memory that they use, on one node                (ours)         together
//!   clusters      AsymSched: where links carry most                                               asymsched
//!   threads       NThread: initial targets, contention for memory, then for CPUs                  threads.rs
//!   bandwidth     where leaving threads go: by the way from their data      (ours)                nthread::guide
//!   relocation    hot data that is read moves or is copied where that is repaid (ours)            relocation
//!   limits        PATS: how many threads at persistent memory                                     limits.rs
//!   delegation    OdinFS; no limit is below the delegates                                         delegation.rs
//!   mba           programs that do not ask, where a memory has too many threads    (ours)         bounds.rs
//!   budget        what all of it costs, in one account per process                                ledger.rs
//!   feedback      what brought too little is undone, or not done again      (ours)                experiments
//! ```
//!
//! docs/explanation/planner.md says why in this order. Each stage can be switched, so that each paper's own system is
//! one setting: [`System`].

mod acts;
mod availability;
mod bounds;
mod decision;
mod delegation;
mod display;
mod experiments;
mod idle;
mod ledger;
mod limits;
mod owners;
mod policies;
mod policy;
mod relocation;
mod set;
mod settings;
mod threads;

use std::collections::BTreeSet;

use egeria_facts::{AccessWindow, Facts, ProcessKey};
use egeria_machine::{Machine, Paths};

pub use acts::Place;
pub use availability::{Stage, Unavailable};
pub use decision::{
    Decision, DelegatedBecause, DelegationPlan, DirectBecause, Limit, Relocate, RelocationReason,
    RelocationStep, Resting,
};
pub use delegation::MOST_DELEGATES;
pub use ledger::Balance;
pub use policies::System;
pub use policy::{Make, Policy};
pub use settings::{Budget, Delegation, Feedback, Limits, Relocation, Settings, Stages};

use crate::KeptProcess;
use crate::asymsched::{self, Following, MemoryAction, MemoryCost, PlacementPlan};
use availability::unavailable;
use delegation::{Delegates, Scene};
use experiments::{Changes, Experiments};
use ledger::{Costs, Ledger};
use limits::{Limiters, admit_delegates};
use owners::Owners;
use relocation::Relocations;

use crate::{ActionKind, ActionResult, Plan, mba, media, together};

/// Decides one window after the other. Its state: displaced threads, processes with memory that follows, limits,
/// copies under way, budgets spent, experiments. It uses no clock and no I/O: the same facts in the same order give the
/// same decisions.
#[derive(Clone, Debug)]
pub struct Planner {
    settings: Settings,
    /// The ways between the nodes, if they are known and valid.
    paths: Option<Paths>,
    owners: Owners,
    ledger: Ledger,
    /// The previous plans.
    threads: Option<Plan>,
    placement: Option<PlacementPlan>,
    together: together::Orders,
    limits: Limiters,
    delegates: Delegates,
    relocations: Relocations,
    mba: mba::State,
    experiments: Experiments,
    /// Stages that the settings ask for, but whose actions have no actuator.
    unavailable: Vec<Unavailable>,
}

impl Planner {
    /// A planner without history. Settings from outside should be [validated](Settings::validate) first.
    pub fn new(machine: &Machine, settings: Settings) -> Planner {
        Planner {
            settings,
            paths: machine.paths().ok().flatten(),
            owners: Owners::default(),
            ledger: Ledger::default(),
            threads: None,
            placement: None,
            together: together::Orders::default(),
            limits: Limiters::default(),
            delegates: Delegates::default(),
            relocations: Relocations::default(),
            mba: mba::State::default(),
            experiments: Experiments::default(),
            unavailable: Vec::new(),
        }
    }

    /// Plans only possible actions: stages without an actuator are off, and every decision says so.
    pub fn with_actuators(mut self, kinds: &[ActionKind]) -> Planner {
        self.unavailable = unavailable(&self.settings, kinds);
        for each in &self.unavailable {
            each.stage.switch_off(&mut self.settings);
        }
        self
    }

    /// Stages that the settings ask for, and that are off because no actuator takes their actions.
    pub fn unavailable(&self) -> &[Unavailable] {
        &self.unavailable
    }

    /// What all processes have spent on moves, and may spend; `None` without a budget.
    pub fn budget(&self) -> Option<Balance> {
        let total = || self.ledger.total(&self.settings.budget);
        self.settings.stages.budget.then(total)
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes the results of the last decision: an action that brought too little is not ordered again for a while
    /// (stage `feedback`).
    pub fn learn(&mut self, results: &[ActionResult]) {
        self.together.learn(results);
        if self.settings.stages.feedback {
            self.experiments.learn(results, &self.settings);
        }
    }

    /// The decision about one window. The next call must get the next window, in which this decision was carried out.
    /// The machine is always the one that the planner was made for.
    pub fn decide(&mut self, machine: &Machine, facts: &Facts) -> Decision {
        let mut facts = facts.sorted();
        media::count_all_programs(machine, &mut facts);
        let facts = &facts;
        self.owners.look(facts, &self.settings);
        self.ledger.pass(facts);
        if self.settings.stages.feedback {
            let is_under_way = self.relocations.is_under_way();
            let back = self.experiments.look(facts, &self.settings, is_under_way);
            self.relocations.take_back(back);
        }
        let placement = self.place(machine, facts);
        let mut threads = self.move_threads(machine, facts, &placement);
        self.experiments.send(facts, &mut threads);
        let relocations = self.relocate(machine, facts, &placement, &threads);
        let mut limits = if self.settings.stages.limits {
            self.limits.next(machine, &facts.media, &self.settings)
        } else {
            Vec::new()
        };
        let (mut delegation, long) = self.delegate(machine, facts, &threads, &limits);
        limits.retain(|limit| {
            let is_set = self.limits.is_set(limit.node, &self.settings.limits);
            is_set && !self.experiments.setbacks.keep_unlimited(limit.node)
        });
        let is_quiet = self.experiments.note(&Changes {
            threads: &threads,
            relocations: &relocations,
            places: !placement.moves.is_empty(),
            data_is_under_way: self.relocations.is_under_way(),
        });
        if self.settings.stages.feedback {
            self.experiments.keep_what_pays(
                &self.settings,
                &mut limits,
                (&mut delegation, long),
                is_quiet,
            );
        }
        admit_delegates(&mut limits, &mut delegation, &self.settings.delegation);
        let mba = self.bound(machine, facts, &limits);
        if !self.experiments.is_for_one_window() {
            self.threads = Some(threads.clone());
        }
        self.placement = Some(placement.clone());
        Decision {
            threads,
            placement,
            limits,
            delegation,
            mba,
            relocations,
            unavailable: self.unavailable.clone(),
            resting: self.experiments.setbacks.end_window(),
        }
    }

    /// The stages `together` and `clusters`: the second where the first changes nothing.
    fn place(&mut self, machine: &Machine, facts: &Facts) -> PlacementPlan {
        let stages = self.settings.stages;
        if !stages.clusters && !stages.together {
            return PlacementPlan::off(facts.accesses.number);
        }
        let mut window: AccessWindow = self.owners.memory_window(machine, facts);
        let following = self.placement.take().map(|last| last.following);
        let following = following.unwrap_or_default();
        let near = self.bring_together(machine, facts, &window, &following);
        if !stages.clusters || near.is_of_together() {
            self.book(&window, &near);
            return near;
        }
        let mut settings = self.settings.asymsched.clone();
        if self.settings.stages.budget {
            self.ledger
                .tell(&mut window, &following, &self.settings.budget);
            settings.budget = self.settings.budget.share;
        }
        let mut taken = self.owners.taken_nodes(machine, facts);
        let resting = |process: &ProcessKey| {
            self.together.holds(*process) || self.experiments.setbacks.keep_process(*process)
        };
        for each in window
            .processes
            .iter()
            .filter(|each| resting(&each.process))
        {
            taken.extend(each.nodes.iter().map(|each| each.node));
        }
        let mut plan = asymsched::beside(machine, &window, &settings, &following, &taken);
        // Memory that follows an earlier move continues.
        plan.memory
            .retain(|step| step.action != MemoryAction::Dynamic || !resting(&step.process));
        self.book(&window, &plan);
        let stays = |kept: &KeptProcess| !plan.changes_process(kept.process);
        plan.kept = near.kept.into_iter().filter(stays).collect();
        plan
    }

    /// Charges what a plan takes.
    fn book(&mut self, window: &AccessWindow, plan: &PlacementPlan) {
        let costs = Costs {
            thread_move_ns: self.settings.budget.thread_move_ns,
            memory: MemoryCost::of(window, &self.settings.asymsched),
        };
        let arriving = self.together.arriving();
        self.ledger.book(window, plan, &costs, &arriving);
    }

    /// The stage `together`. Memory that follows threads by the stage `clusters` goes on.
    fn bring_together(
        &mut self,
        machine: &Machine,
        facts: &Facts,
        window: &AccessWindow,
        following: &[(ProcessKey, Following)],
    ) -> PlacementPlan {
        if !self.settings.stages.together {
            return PlacementPlan::off(window.number);
        }
        let settings = &self.settings;
        let (setbacks, ledger) = (&self.experiments.setbacks, &self.ledger);
        let awaiting = self.relocations.awaiting(facts).into_iter();
        let awaiting: BTreeSet<u32> = awaiting.map(|thread| thread.process_id).collect();
        let mut plan = self.together.next(&together::Basis {
            machine,
            facts,
            window,
            settings: &settings.together,
            cost: MemoryCost::of(window, &settings.asymsched),
            budget: settings.migration_share(),
            is_resting: &|process| {
                setbacks.keep_process(process) || awaiting.contains(&process.process_id)
            },
            thread_move_ns: settings.budget.thread_move_ns,
            others_ns: &|process| ledger.others_ns(process.process_id),
            is_over_budget: &|process| {
                let balance = ledger.balance(process.process_id, &settings.budget);
                settings.stages.budget && !balance.affords(settings.budget.thread_move_ns)
            },
            is_following: &|process| following.iter().any(|(other, _)| *other == process),
        });
        plan.following = following.to_vec();
        plan
    }

    /// The stage `relocation`.
    fn relocate(
        &mut self,
        machine: &Machine,
        facts: &Facts,
        placement: &PlacementPlan,
        threads: &Plan,
    ) -> Vec<RelocationStep> {
        if !self.settings.stages.relocation {
            return Vec::new();
        }
        let scene = relocation::Scene {
            machine,
            paths: self.paths.as_ref(),
            facts,
            settings: &self.settings,
            threads,
            held: &self.owners.held(facts, placement),
            setbacks: &self.experiments.setbacks,
            is_still: self.experiments.holds_data(),
        };
        self.relocations.next(&scene, &mut self.ledger)
    }

    /// The stage `delegation`; and delegation that is worth a trial, only because accesses are long.
    fn delegate(
        &mut self,
        machine: &Machine,
        facts: &Facts,
        threads: &Plan,
        limits: &[Limit],
    ) -> (DelegationPlan, Option<DelegationPlan>) {
        if !self.settings.stages.delegation {
            let because = DirectBecause::Stage;
            return (DelegationPlan::Off { because }, None);
        }
        let scene = Scene {
            machine,
            media: &facts.media,
            limits,
            remote_share: delegation::remote_share(machine, &facts.window, threads, &facts.media),
        };
        let settings = &self.settings.delegation;
        let long = self.delegates.long_accesses(&scene, settings);
        (self.delegates.next(&scene, settings), long)
    }
}

impl Policy for Planner {
    fn decide(&mut self, machine: &Machine, facts: &Facts) -> Decision {
        Planner::decide(self, machine, facts)
    }

    fn learn(&mut self, results: &[ActionResult]) {
        Planner::learn(self, results);
    }

    fn unavailable(&self) -> &[Unavailable] {
        Planner::unavailable(self)
    }

    fn budget(&self) -> Option<Balance> {
        Planner::budget(self)
    }
}
