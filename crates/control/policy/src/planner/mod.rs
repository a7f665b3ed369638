//! One planner: what four papers decide separately, as one decision.
//!
//! ```text
//!   0. owner of each process       file I/O moves single threads, memory moves whole nodes      owners.rs
//!   1. sharing clusters            AsymSched: where links carry most                           asymsched
//!   2. initial targets             NThread §III-A; moves of stage 1 are taken into account      nthread
//!   3. contention for PM           NThread §III-C1
//!   4. contention for CPUs         NThread §III-C2
//!   5. where leaving threads go    by the way from their data (ours)                            nthread::guide
//!   6. hot data that is read       moves or is copied where that is repaid (ours)               relocation
//!   7. admission limits            PATS                                                         limits.rs
//!   8. delegation                  OdinFS; no limit is below the delegates                      delegation.rs
//!   9. the budget                  what all of it costs, in one account per process             ledger.rs
//!  10. feedback                    what brought too little is not done again (ours)             setbacks.rs
//!                                  limits and delegation stay where they pay (ours)             trials.rs
//! ```
//!
//! docs/explanation/planner.md says why in this order. Each stage can be switched, so that each paper's own system is
//! one setting: [`System`].

mod availability;
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

use egeria_facts::{AccessWindow, Facts, MediumFacts, ProcessKey};
use egeria_machine::{Machine, Paths};

pub use availability::{Stage, Unavailable};
pub use decision::{
    Decision, DelegatedBecause, DelegationPlan, DirectBecause, Limit, Relocate, RelocationReason,
    RelocationStep, Resting,
};
pub use ledger::Balance;
pub use policies::System;
pub use policy::{Make, Policy};
pub use settings::{Budget, Delegation, Feedback, Limits, Relocation, Settings, Stages};

use crate::asymsched::{self, MemoryAction, PlacementPlan};
use availability::unavailable;
use delegation::{Delegates, Scene};
use experiments::compare::Compare;
use experiments::progress::{Progress, progress};
use experiments::setbacks::Setbacks;
use experiments::trials::{Arm, Level, Trials};
use experiments::undo::Undo;
use ledger::{Costs, Ledger};
use limits::{Limiters, admit_delegates};
use owners::Owners;
use relocation::Relocations;

use crate::pats::Controller;
use crate::{Action, ActionKind, ActionResult, Plan};

/// Decides one window after the other. Its state: displaced threads, processes with memory that follows, limits,
/// copies under way, budgets spent, setbacks. It uses no clock and no I/O: the same facts in the same order give the
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
    limits: Limiters,
    delegates: Delegates,
    relocations: Relocations,
    setbacks: Setbacks,
    trials: Trials,
    undo: Undo,
    compare: Compare,
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
            limits: Limiters::default(),
            delegates: Delegates::default(),
            relocations: Relocations::default(),
            setbacks: Setbacks::default(),
            trials: Trials::default(),
            undo: Undo::default(),
            compare: Compare::default(),
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

    /// Its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes the results of the last decision: an action that brought too little is not ordered again for a while
    /// (stage `feedback`).
    pub fn learn(&mut self, results: &[ActionResult]) {
        if self.settings.stages.feedback {
            let results = results.iter().filter(|result| self.rests(&result.action));
            let results: Vec<&ActionResult> = results.collect();
            self.setbacks.learn(&results, &self.settings.feedback);
        }
    }

    /// Whether an action that brought too little is avoided for a while. Delegation, and limits that trials judge, are
    /// decided by trials alone. What the settings always want continues.
    fn rests(&self, action: &Action) -> bool {
        match action {
            Action::SetLimit(_) => !self.settings.limits.always && !self.tries_limits(),
            Action::SetDelegation { .. } => false,
            _ => true,
        }
    }

    /// Whether trials judge limits.
    fn tries_limits(&self) -> bool {
        !self.settings.limits.always && self.settings.pats.controller == Controller::Formula
    }

    /// The decision about one window. The next call must get the next window, in which this decision was carried out.
    /// The machine is always the one that the planner was made for.
    pub fn decide(&mut self, machine: &Machine, facts: &Facts) -> Decision {
        let facts = &facts.sorted();
        self.owners.look(facts, &self.settings);
        self.ledger.pass(facts);
        self.setbacks.pass();
        if self.settings.stages.feedback {
            self.look_back(facts, progress(facts));
        }
        let placement = self.place(machine, facts);
        let mut threads = self.move_threads(machine, facts, &placement);
        self.undo.send_back(facts, &mut threads);
        self.compare.send(facts, &mut threads);
        let relocations = self.relocate(machine, facts, &placement, &threads);
        let mut limits = if self.settings.stages.limits {
            self.limits.next(machine, &facts.media, &self.settings)
        } else {
            Vec::new()
        };
        let mut delegation = self.delegate(machine, facts, &threads, &limits);
        limits.retain(|limit| {
            let is_set = self.limits.is_set(limit.node, &self.settings.limits);
            is_set && !self.setbacks.keep_unlimited(limit.node)
        });
        let is_still = placement.moves.is_empty() && !self.relocations.is_under_way();
        self.undo.note(&threads, is_still);
        self.compare.note(&threads, is_still);
        let threads_stay = threads.moves.is_empty() && placement.moves.is_empty();
        if self.relocations.note(&relocations, threads_stay) {
            self.undo.note_data();
        }
        let is_open = self.undo.is_open() || self.relocations.is_open();
        let is_quiet = is_still && threads.moves.is_empty() && !is_open;
        self.keep_what_pays(&facts.media, &mut limits, &mut delegation, is_quiet);
        admit_delegates(&mut limits, &delegation);
        // A comparison ends after one window; the earlier decision continues then.
        if !self.compare.is_looking() {
            self.threads = Some(threads.clone());
        }
        self.placement = Some(placement.clone());
        Decision {
            threads,
            placement,
            limits,
            delegation,
            relocations,
            unavailable: self.unavailable.clone(),
            resting: self.setbacks.resting(),
        }
    }

    /// Stage 10: decides whether threads and data go back because threads get less since they moved.
    fn look_back(&mut self, facts: &Facts, progress: Progress) {
        let was_looking = self.compare.is_looking();
        if !was_looking {
            self.trials.look(&progress, &self.settings.feedback);
            self.look_at_moves(progress.clone());
        }
        let is_free = !self.trials.is_trying()
            && !self.undo.is_open()
            && !self.undo.is_waiting()
            && !self.relocations.is_open()
            && !self.relocations.is_under_way();
        self.compare.look(facts, &progress, is_free);
    }

    fn look_at_moves(&mut self, progress: Progress) {
        let settings = &self.settings.feedback;
        let lost = if self.settings.stages.relocation {
            (self.relocations).look(progress.clone(), &self.settings.relocation)
        } else {
            None
        };
        if self.undo.look(progress.clone(), settings) {
            self.compare.know(&progress);
        }
        if let Some(speed) = lost {
            self.undo.follow_back(speed, &progress, settings);
        }
    }

    /// Stage 10: reverts limits and delegation that are not tried now and did not pay when they were tried. Limits
    /// that are learned, and what the settings always want, are not judged.
    fn keep_what_pays(
        &mut self,
        media: &[MediumFacts],
        limits: &mut Vec<Limit>,
        delegation: &mut DelegationPlan,
        is_quiet: bool,
    ) {
        let settings = &self.settings;
        if !settings.stages.feedback {
            return;
        }
        let judges_limits = self.tries_limits();
        let judges_delegation = !settings.delegation.always;
        let mut direct = DirectBecause::DidNotPay;
        if let DelegationPlan::Off { because } = *delegation
            && matches!(because, DirectBecause::Quiet { .. })
            && let Some(plan) = delegation::long_accesses(media, &settings.delegation)
        {
            (*delegation, direct) = (plan, because);
        }
        let is_on = matches!(delegation, DelegationPlan::On { .. });
        let is_raised = limits.iter().any(|limit| limit.bears.is_some());
        let wanted = Arm {
            limits: match judges_limits && !limits.is_empty() {
                true if is_raised => Level::Formula,
                true => Level::Wanted,
                false => Level::Off,
            },
            delegation: judges_delegation && is_on,
        };
        // During a comparison, all changes are short.
        let waits = self.compare.is_looking() || self.compare.sends() || self.compare.is_due();
        let acts = if waits {
            self.trials.pause()
        } else {
            (self.trials).choose(wanted, is_quiet, &settings.feedback)
        };
        match acts.limits {
            Level::Off if judges_limits => limits.clear(),
            Level::Formula => limits.iter_mut().for_each(Limit::lower),
            Level::Off | Level::Wanted => {}
        }
        if wanted.delegation && !acts.delegation {
            *delegation = DelegationPlan::Off { because: direct };
        }
    }

    /// The stage `clusters`.
    fn place(&mut self, machine: &Machine, facts: &Facts) -> PlacementPlan {
        if !self.settings.stages.clusters {
            return PlacementPlan::off(facts.accesses.number);
        }
        let mut window: AccessWindow = self.owners.memory_window(machine, facts);
        let following = self.placement.take().map(|last| last.following);
        let following = following.unwrap_or_default();
        let mut settings = self.settings.asymsched.clone();
        if self.settings.stages.budget {
            self.ledger
                .tell(&mut window, &following, &self.settings.budget);
            settings.budget = self.settings.budget.share;
        }
        let mut taken = self.owners.taken_nodes(machine, facts);
        let resting = |process: &ProcessKey| self.setbacks.keep_process(*process);
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
        let costs = Costs {
            thread_move_ns: self.settings.budget.thread_move_ns,
            memory_s_per_gb: settings.cost_s_per_gb,
        };
        self.ledger.book(&window, &plan, &costs);
        plan
    }

    /// Stage 6.
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
            setbacks: &self.setbacks,
            is_still: self.trials.is_trying() || self.compare.is_looking(),
        };
        self.relocations.next(&scene, &mut self.ledger)
    }

    /// Stage 8.
    fn delegate(
        &mut self,
        machine: &Machine,
        facts: &Facts,
        threads: &Plan,
        limits: &[Limit],
    ) -> DelegationPlan {
        if !self.settings.stages.delegation {
            return DelegationPlan::Off {
                because: DirectBecause::Stage,
            };
        }
        let scene = Scene {
            machine,
            media: &facts.media,
            limits,
            remote_share: delegation::remote_share(machine, &facts.window, threads),
        };
        self.delegates.next(&scene, &self.settings.delegation)
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
