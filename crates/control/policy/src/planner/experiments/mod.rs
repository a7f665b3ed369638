//! What the planner learns from results (the stage `feedback`): one change at a time, compared with before.
//!
//! ```text
//!   experiment     what changes                                ends                                  file
//!   trial          limits and delegation, setting by setting   the fastest setting stays             trials.rs
//!   comparison     threads, to their old places                one window later                      compare.rs
//!   migration      threads, as the plan says                   they stay, or all go back             undo.rs
//!   relocation     files, as the plan says                     they stay, or all go back             data.rs
//!   action         one action with an expectation              missed: not again for a while         setbacks.rs
//! ```
//!
//! All but the last compare what threads get in still windows, as a geometric mean (progress.rs). This is the one place
//! that decides which experiment has its turn. A comparison comes first, because its window is like neither of its
//! neighbours. Then threads and data that moved are judged. Limits and delegation are tried once all of these are over.

mod arm;
mod compare;
mod credit;
mod data;
mod experiment;
mod places;
mod progress;
mod regime;
mod setbacks;
mod trials;
mod undo;

use std::collections::{BTreeMap, HashMap};

use egeria_facts::{Facts, ThreadKey};
use egeria_machine::NodeId;

use super::decision::{DelegationPlan, DirectBecause, Limit, RelocationStep};
use super::settings::Settings;
use crate::pats::Controller;
use crate::{Action, ActionResult, Plan};
use arm::{Arm, Level};
use compare::Compare;
use credit::Credit;
use data::Data;
use progress::{Progress, progress};
pub(super) use setbacks::Setbacks;
use trials::Trials;
use undo::Undo;

/// All experiments.
#[derive(Clone, Debug, Default)]
pub(super) struct Experiments {
    pub(super) setbacks: Setbacks,
    trials: Trials,
    undo: Undo,
    data: Data,
    compare: Compare,
    credit: Credit,
}

/// Steps for data after which threads get less, and how much.
pub(super) type Back = (f64, Vec<RelocationStep>);

/// What a decision changes so far.
pub(super) struct Changes<'a> {
    pub(super) threads: &'a Plan,
    pub(super) relocations: &'a [RelocationStep],
    /// Processes are placed.
    pub(super) places: bool,
    pub(super) data_is_under_way: bool,
}

impl Experiments {
    /// Takes the results of the last decision.
    pub(super) fn learn(&mut self, results: &[ActionResult], settings: &Settings) {
        let results = (results.iter()).filter(|result| rests(&result.action, settings));
        let results: Vec<&ActionResult> = results.collect();
        self.setbacks.learn(&results, &settings.feedback);
    }

    /// Takes what threads got in a window. Returns data that goes back.
    pub(super) fn look(
        &mut self,
        facts: &Facts,
        settings: &Settings,
        data_is_under_way: bool,
    ) -> Option<Back> {
        let progress = progress(facts);
        self.credit.earn();
        let mut back = None;
        if !self.compare.is_looking() {
            self.trials
                .look(&progress, &settings.feedback, &mut self.credit);
            back = self.judge(&progress, settings);
        }
        let is_free = !self.trials.is_trying()
            && !self.undo.is_waiting()
            && !self.is_judging()
            && !data_is_under_way;
        self.compare
            .look(facts, &progress, is_free, &mut self.credit);
        back
    }

    /// Judges threads and data that moved. Threads that followed data go back with it.
    fn judge(&mut self, progress: &Progress, settings: &Settings) -> Option<Back> {
        let back = if settings.stages.relocation {
            self.data.look(progress, settings.relocation.rest_windows)
        } else {
            None
        };
        if self.undo.look(progress, &settings.feedback) {
            self.compare.know(progress);
        }
        if let Some((speed, _)) = &back {
            self.undo.follow_back(*speed, progress, &settings.feedback);
        }
        back
    }

    /// Whether threads or data that moved are to be judged by the next window.
    fn is_judging(&self) -> bool {
        self.undo.is_open() || self.data.is_open()
    }

    /// Whether no data may start to move now.
    pub(super) fn holds_data(&self) -> bool {
        self.trials.is_trying() || self.compare.is_looking() || self.data.rests()
    }

    /// Adds threads that stay where they are, or at their former nodes.
    pub(super) fn held(&self, facts: &Facts, held: &mut HashMap<ThreadKey, NodeId>) {
        if self.trials.is_trying() {
            for thread in &facts.window.threads {
                held.entry(thread.key).or_insert(thread.node);
            }
        }
        self.undo.held(facts, held);
        self.compare.held(facts, held);
    }

    /// Lets processes pay for the moves of experiments: `pays` charges each process for this number of its threads, if
    /// all can afford this number of such moves. Threads of those that may not pay stay where they are.
    pub(super) fn pay(
        &mut self,
        facts: &Facts,
        mut pays: impl FnMut(&BTreeMap<u32, u32>, u64) -> bool,
    ) {
        if !pays(&by_process(self.compare.goers()), self.compare.ways()) {
            self.compare.give_up();
        }
        let back = self.undo.steps_back(facts);
        for (process, moved) in by_process(back.iter().map(|step| &step.thread)) {
            if !pays(&BTreeMap::from([(process, moved)]), 1) {
                self.undo.leave(facts, process);
            }
        }
    }

    /// Adds the moves of experiments to a plan that was made with these threads held.
    pub(super) fn send(&self, facts: &Facts, plan: &mut Plan) {
        let mut back = self.undo.steps_back(facts);
        back.retain(|step| plan.move_of(step.thread).is_none());
        plan.moves.extend(back);
        plan.moves.extend(self.compare.steps(facts));
        plan.moves.sort_by_key(|step| step.thread);
    }

    /// Whether threads are at other places for one window, and the earlier plan continues then.
    pub(super) fn is_for_one_window(&self) -> bool {
        self.compare.is_looking()
    }

    /// Takes what a decision changes. Returns whether nothing changes that would disturb a trial.
    pub(super) fn note(&mut self, changes: &Changes<'_>) -> bool {
        let threads = changes.threads;
        let is_still = !changes.places && !changes.data_is_under_way;
        self.undo.note(threads, is_still);
        self.compare.note(threads, is_still);
        let threads_stay = threads.moves.is_empty() && !changes.places;
        let is_still_for_data = threads_stay && !changes.data_is_under_way;
        if self.data.note(changes.relocations, is_still_for_data) {
            self.undo.note_data();
        }
        is_still && threads.moves.is_empty() && !self.is_judging()
    }

    /// Reverts limits and delegation that are not tried now and did not pay when they were tried. Limits that are
    /// learned, and what the settings always want, are not judged. `long`: delegation of accesses that are only long.
    pub(super) fn keep_what_pays(
        &mut self,
        settings: &Settings,
        limits: &mut Vec<Limit>,
        (delegation, long): (&mut DelegationPlan, Option<DelegationPlan>),
        is_quiet: bool,
    ) {
        let mut direct = DirectBecause::DidNotPay;
        if let DelegationPlan::Off { because } = *delegation
            && matches!(because, DirectBecause::Quiet { .. })
            && let Some(plan) = long
        {
            (*delegation, direct) = (plan, because);
        }
        let wanted = wanted(settings, limits, delegation);
        // During a comparison, all changes are short.
        let acts = if self.compare.is_under_way_or_due() {
            self.trials.pause()
        } else {
            (self.trials).choose(wanted, is_quiet, &settings.feedback, &self.credit)
        };
        match acts.limits {
            Level::Off if tries_limits(settings) => limits.clear(),
            Level::Formula => limits.iter_mut().for_each(Limit::lower),
            Level::Off | Level::Wanted => {}
        }
        if wanted.delegation && !acts.delegation {
            *delegation = DelegationPlan::Off { because: direct };
        }
    }
}

/// Whether trials judge limits.
fn tries_limits(settings: &Settings) -> bool {
    !settings.limits.always && settings.pats.controller == Controller::Formula
}

/// Whether an action that brought too little is avoided for a while. Delegation, and limits that trials judge, are
/// decided by trials alone. What the settings always want continues.
fn rests(action: &Action, settings: &Settings) -> bool {
    match action {
        Action::SetLimit(_) => !settings.limits.always && !tries_limits(settings),
        Action::SetDelegation { .. } => false,
        _ => true,
    }
}

/// The setting that the stages want, as far as trials judge it.
fn wanted(settings: &Settings, limits: &[Limit], delegation: &DelegationPlan) -> Arm {
    let is_on = matches!(delegation, DelegationPlan::On { .. });
    let is_raised = limits.iter().any(|limit| limit.bears.is_some());
    let level = if !tries_limits(settings) || limits.is_empty() {
        Level::Off
    } else if is_raised {
        Level::Formula
    } else {
        Level::Wanted
    };
    Arm {
        limits: level,
        delegation: !settings.delegation.always && is_on,
    }
}

/// How many of these threads each process has.
pub(super) fn by_process<'a>(threads: impl Iterator<Item = &'a ThreadKey>) -> BTreeMap<u32, u32> {
    let mut counts = BTreeMap::new();
    for thread in threads {
        *counts.entry(thread.process_id).or_default() += 1;
    }
    counts
}
