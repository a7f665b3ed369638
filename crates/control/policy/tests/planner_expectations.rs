//! Every kind of action has an expectation; what brought less than half of it is not done again for a while.

use crate::clusters;
use crate::common;
use crate::data;
use crate::whole;

use std::collections::BTreeMap;

use clusters::{GB, process};
use common::fluid::{Fluid, Worker};
use common::{SECOND_NS, ring, thread, window};
use data::{World, file_on};
use egeria_facts::{Facts, Measured, MediumFacts, Mix};
use egeria_machine::{Machine, NodeId};
use egeria_policy::pats::Controller;
use egeria_policy::planner::{
    Decision, DelegationPlan, DirectBecause, Planner, Relocate, Settings, System,
};
use egeria_policy::{
    Action, ActionKind, ActionOutcome, ActionRecord, ActionResult, Basis, Expectation, Measure,
    Subject,
};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use whole::{obeyed_all, whole};

const MB: u64 = 1_000_000;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(11),
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

/// One window: its facts, what was decided on them, and each action with what is expected of it.
struct Step {
    facts: Facts,
    decision: Decision,
    actions: Vec<(Action, Option<Expectation>)>,
}

/// So many windows in which all is done as decided.
fn history(machine: &Machine, facts: &Facts, settings: &Settings, windows: usize) -> Vec<Step> {
    let mut planner = Planner::new(machine, settings.clone());
    let (mut facts, mut previous, mut all) = (facts.clone(), Decision::none(0), Vec::new());
    for _ in 0..windows {
        let decision = planner.decide(machine, &facts);
        let next = obeyed_all(machine, &facts, &decision);
        let actions = expected(machine, &facts, &decision, &previous, settings);
        previous.clone_from(&decision);
        all.push(Step {
            facts: std::mem::replace(&mut facts, next),
            decision,
            actions,
        });
    }
    all
}

fn expected(
    machine: &Machine,
    facts: &Facts,
    decision: &Decision,
    previous: &Decision,
    settings: &Settings,
) -> Vec<(Action, Option<Expectation>)> {
    let basis = Basis {
        machine,
        facts,
        decision,
        previous,
        settings,
    };
    let actions = decision.actions(previous).into_iter();
    actions
        .map(|action| {
            let expected = Expectation::of(&action, &basis);
            (action, expected)
        })
        .collect()
}

fn are_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs()).max(1e-9)
}

proptest! {
    #![proptest_config(config(200))]

    /// An expectation that measured something else than its result would mark good actions as missed, or bad ones not.
    #[test]
    fn what_was_before_is_measured_as_what_comes_after(
        (machine, facts) in whole(),
        system in prop::sample::select(System::ALL.to_vec()),
    ) {
        for step in history(&machine, &facts, &system.settings(), 3) {
            for (action, expected) in &step.actions {
                let Some(expected) = expected else { continue };
                prop_assert!(expected.before.is_finite() && expected.expected.is_finite(), "{action}: {expected:?}");
                prop_assert!((1..=602).contains(&expected.windows), "{action}: {expected:?}");
                let line = expected.to_string();
                prop_assert!(!line.contains('\n') && !line.contains("NaN"), "{line}");
                // Memory is near its threads only once these have moved.
                if action.kind() == ActionKind::MemoryMigration {
                    continue;
                }
                if let Some(now) = expected.measured(action, &machine, &step.facts) {
                    prop_assert!(are_near(now, expected.before), "{action}: {now}, {expected:?}");
                }
            }
        }
    }

    #[test]
    fn placements_that_are_done_as_decided_bring_what_was_expected(
        (machine, facts) in whole(),
        system in prop::sample::select(vec![System::Asymsched, System::All]),
    ) {
        for step in history(&machine, &facts, &system.settings(), 3) {
            let after = obeyed_all(&machine, &step.facts, &step.decision);
            for (action, expected) in &step.actions {
                let Some(expected) = expected else { continue };
                if action.kind() != ActionKind::ProcessMigration {
                    continue;
                }
                let measured = expected.measured(action, &machine, &after).expect("it goes on");
                prop_assert!(are_near(measured, expected.expected), "{action}: {measured}, {expected:?}");
            }
        }
    }
}

/// The properties above are about something.
#[test]
fn generated_scenes_have_expectations_of_many_measures() {
    let mut runner = TestRunner::new(config(0));
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..200 {
        let tree = whole().new_tree(&mut runner).expect("nothing is rejected");
        let (machine, facts) = tree.current();
        for step in history(&machine, &facts, &System::All.settings(), 3) {
            for (_, expected) in step.actions {
                let measure = expected.map(|expected| format!("{:?}", expected.measure));
                *counts.entry(measure.unwrap_or_default()).or_default() += 1;
            }
        }
    }
    for measure in [
        Measure::LocalShare,
        Measure::PathBandwidth,
        Measure::NearThreadsShare,
        Measure::DramBytesPerSecond,
        Measure::TotalBytesPerSecond,
    ] {
        let count = counts.get(&format!("{measure:?}")).copied().unwrap_or(0);
        assert!(count >= 5, "{measure:?}: {counts:?}");
    }
}

/// Windows of a planner whose actions change nothing: the facts stay as they are, but for time.
struct Unchanging {
    machine: Machine,
    planner: Planner,
    settings: Settings,
    previous: Decision,
    /// What is to be judged, and in which window.
    pending: Vec<(u64, ActionRecord)>,
    window: u64,
    learns: bool,
    /// What brought too little so far.
    missed: Vec<Subject>,
}

impl Unchanging {
    fn new(machine: &Machine, settings: Settings, learns: bool) -> Unchanging {
        Unchanging {
            machine: machine.clone(),
            planner: Planner::new(machine, settings.clone()),
            settings,
            previous: Decision::none(0),
            pending: Vec::new(),
            window: 0,
            learns,
            missed: Vec::new(),
        }
    }

    fn decide(&mut self, facts: &Facts) -> Decision {
        let mut facts = facts.clone();
        facts.window.number = self.window;
        facts.window.start_ns = self.window * SECOND_NS;
        facts.accesses.end_ns = (self.window + 1) * SECOND_NS;
        let (due, later) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition(|(at, _)| *at == self.window);
        self.pending = later;
        let due: Vec<(u64, ActionRecord)> = due;
        let results: Vec<ActionResult> = (due.iter())
            .map(|(_, record)| ActionResult::of(record, &self.machine, &facts))
            .collect();
        let missed = results.iter().filter(|result| result.missed);
        (self.missed).extend(missed.map(|result| result.action.subject()));
        if self.learns {
            self.planner.learn(&results);
        }
        let decision = self.planner.decide(&self.machine, &facts);
        let actions = expected(
            &self.machine,
            &facts,
            &decision,
            &self.previous,
            &self.settings,
        );
        for (action, expected) in actions {
            let Some(windows) = expected.map(|expected| u64::from(expected.windows)) else {
                continue;
            };
            let record = ActionRecord {
                action,
                expected,
                outcome: ActionOutcome::Done,
            };
            self.pending.push((self.window + windows, record));
        }
        self.previous.clone_from(&decision);
        self.window += 1;
        decision
    }
}

#[test]
fn a_process_without_gain_is_not_placed_again() {
    let machine = ring(&[1e9, 1e8, 10e9, 1e8]);
    let on = |number: u32, node: usize| {
        let mut facts = thread(&machine, number, node, &[0, 0, 0, 0], 0, 0.2);
        facts.key.process_id = 1;
        facts
    };
    let mut facts = Facts::of(window(&machine, vec![on(1, 0), on(2, 1)]));
    facts.accesses.processes = vec![process(&machine, 1, &[0, 1], 1e7)];
    let placed_in = |learns: bool| {
        let mut run = Unchanging::new(&machine, System::All.settings(), learns);
        let decisions: Vec<Decision> = (0..12).map(|_| run.decide(&facts)).collect();
        let moves = decisions.iter().map(|each| each.placement.moves.len());
        (moves.filter(|count| *count > 0).count(), decisions)
    };
    let (again, _) = placed_in(false);
    assert!(again >= 3, "without feedback it is placed again: {again}");
    let (once, decisions) = placed_in(true);
    assert!(once <= 2, "{once}");
    let subject = Subject::Process {
        process: facts.accesses.processes[0].process,
    };
    let resting = |decision: &Decision| decision.resting.iter().any(|each| each.subject == subject);
    assert!(decisions.iter().any(resting), "and it is said");
    let line = decisions.last().expect("some").resting[0].to_string();
    assert!(line.contains("less than half of"), "{line}");
}

fn busy_medium(demand: u32, dram_bytes_s: Option<f64>) -> MediumFacts {
    MediumFacts {
        node: NodeId(0),
        measured: Measured {
            mix: Mix {
                requests: 1000,
                mean_bytes: 4096.0,
                write_share: 1.0,
            },
            demand,
            pm_bytes_s: 1e9,
            dram_bytes_s,
        },
        free_bytes: None,
        striped_files: None,
    }
}

fn with_medium(machine: &Machine, medium: MediumFacts) -> Facts {
    Facts {
        media: vec![medium],
        ..Facts::of(window(machine, Vec::new()))
    }
}

/// The planner's settings without delegation, which would answer to the same crowd.
fn limits_alone() -> Settings {
    let mut settings = System::All.settings();
    settings.stages.delegation = false;
    settings
}

/// In which of 26 windows a node has a limit that does not help, and the run.
fn limited(settings: Settings) -> (Vec<bool>, Unchanging) {
    let machine = common::machine(2);
    let facts = with_medium(&machine, busy_medium(12, None));
    let mut run = Unchanging::new(&machine, settings, true);
    let limited = (0..26).map(|_| !run.decide(&facts).limits.is_empty());
    (limited.collect(), run)
}

/// The learned controller takes the limit of the formula where DRAM is not measured.
#[test]
fn a_learned_limit_that_does_not_help_is_lifted_for_a_while() {
    let mut settings = limits_alone();
    settings.pats.controller = Controller::Learned;
    let (limited_now, _) = limited(settings.clone());
    let rest = Settings::default().feedback.rest_windows as usize;
    let mut wanted = vec![true];
    wanted.extend(vec![false; rest]);
    wanted.push(true);
    wanted.resize(26, false);
    assert_eq!(limited_now, wanted, "and the rest doubles");
    settings.limits.always = true;
    let (limited_always, run) = limited(settings);
    assert!(limited_always.iter().all(|is_limited| *is_limited));
    assert!(!run.missed.is_empty() && run.previous.resting.is_empty());
}

#[test]
fn limits_of_the_formula_are_marked_and_left_to_trials() {
    let (limited_now, run) = limited(limits_alone());
    let is_missed = |subject: &Subject| *subject == Subject::Limit { node: NodeId(0) };
    assert!(run.missed.iter().any(is_missed), "{limited_now:?}");
    assert!(run.previous.resting.is_empty());
    let tried = limited_now.iter().filter(|is_limited| **is_limited).count();
    assert!((1..=4).contains(&tried), "{limited_now:?}");
    assert!(!limited_now[25], "{limited_now:?}");
}

#[test]
fn limits_expect_the_peak_of_dram_or_medium_back() {
    let machine = common::machine(2);
    let expectation = |dram_bytes_s| {
        let facts = with_medium(&machine, busy_medium(12, dram_bytes_s));
        // Trials begin without.
        let mut settings = limits_alone();
        settings.stages.feedback = false;
        let decision = Planner::new(&machine, settings.clone()).decide(&machine, &facts);
        let none = Decision::none(0);
        let actions = expected(&machine, &facts, &decision, &none, &settings);
        let limit = actions
            .into_iter()
            .find(|(action, _)| matches!(action, Action::SetLimit(_)));
        limit.expect("a limit").1.expect("an expectation")
    };
    // Eq. 1 gives 2 threads no loss; 12 are beyond the half that is said at most.
    let dram = expectation(Some(1e9));
    assert_eq!(dram.measure, Measure::DramBytesPerSecond);
    assert!(are_near(dram.expected, 2e9), "{dram}");
    let unknown = expectation(None);
    assert_eq!(unknown.measure, Measure::PmBytesPerSecond);
    assert!(unknown.expected > unknown.before, "{unknown}");
}

#[test]
fn delegation_without_gain_ends_after_trials() {
    let machine = common::machine(2);
    let mut facts = with_medium(&machine, busy_medium(1, None));
    let mut bound = thread(&machine, 1, 1, &[900 * MB], 100 * MB, 0.5);
    bound.pinned = true;
    facts.window = window(&machine, vec![bound]);
    let mut run = Unchanging::new(&machine, System::All.settings(), true);
    let plans: Vec<DelegationPlan> = (0..10).map(|_| run.decide(&facts).delegation).collect();
    let is_on = |plan: &&DelegationPlan| matches!(plan, DelegationPlan::On { .. });
    let tried = plans.iter().filter(is_on).count();
    assert_eq!(tried as u32, Settings::default().feedback.trial_windows);
    let last = &plans[9];
    assert!(
        matches!(
            last,
            DelegationPlan::Off {
                because: DirectBecause::DidNotPay
            }
        ),
        "{last}"
    );
    assert!(last.to_string().contains("less with it"), "{last}");
    // In turns with the windows without it.
    assert_eq!(run.missed, [Subject::Delegation; 2]);
    assert!(run.previous.resting.is_empty(), "trials decide");
}

/// Threads bound to nodes 0 to 3 that all read one file on node 0.
fn bound_readers() -> World {
    let worker = |number: usize| Worker {
        pinned: true,
        is_shared: true,
        ..Worker::fio(number as u32, number % 4, 4, 1.0)
    };
    let fluid = Fluid::new(common::machine(4), (0..8).map(worker).collect());
    World::new(fluid, vec![file_on(4, 0, 0.2 * GB as f64)], vec![0; 8])
}

#[test]
fn a_file_does_not_return_to_a_node_without_gain() {
    let mut world = bound_readers();
    let facts = world.facts();
    let machine = world.fluid.machine.clone();
    let mut settings = System::All.settings();
    settings.budget.share = 1.0;
    settings.relocation.rest_windows = 1;
    let targets = |learns: bool| {
        let mut run = Unchanging::new(&machine, settings.clone(), learns);
        let mut counts: BTreeMap<NodeId, usize> = BTreeMap::new();
        for _ in 0..30 {
            for step in run.decide(&facts).relocations {
                if let Relocate::Move { to, .. } | Relocate::Replicate { to, .. } = step.action {
                    *counts.entry(to).or_default() += 1;
                }
            }
        }
        counts
    };
    let most = |counts: BTreeMap<NodeId, usize>| counts.into_values().max().unwrap_or(0);
    let (without, with) = (targets(false), targets(true));
    assert!(
        most(without.clone()) > most(with.clone()),
        "{without:?} {with:?}"
    );
    assert!(!with.is_empty());
}
