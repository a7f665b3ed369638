//! What cannot be done is said, and what brought too little is not done again.

use crate::common;

use common::{SECOND_NS, key, machine, thread, window};
use egeria_facts::Facts;
use egeria_machine::{Machine, NodeId};
use egeria_policy::planner::{Decision, Planner, Settings, Stage, System};
use egeria_policy::{
    Action, ActionKind, ActionOutcome, ActionRecord, ActionResult, Basis, Expectation, KeptBecause,
    Measure,
};

const MB: u64 = 1_000_000;

/// One thread on node 1 that reads 500 MB/s from node 0.
fn remote_reader(machine: &Machine) -> Facts {
    Facts::of(window(
        machine,
        vec![thread(machine, 1, 1, &[500 * MB], 0, 0.5)],
    ))
}

fn planner(machine: &Machine, system: System) -> Planner {
    Planner::new(machine, system.settings())
}

/// The results of a decision when so much came of every action.
fn results(
    machine: &Machine,
    facts: &Facts,
    decision: &Decision,
    after: &Facts,
) -> Vec<ActionResult> {
    let (previous, settings) = (Decision::none(0), Settings::default());
    let actions = decision.actions(&previous);
    let basis = Basis {
        machine,
        facts,
        decision,
        previous: &previous,
        settings: &settings,
    };
    let record = |action: Action| ActionRecord {
        expected: Expectation::of(&action, &basis),
        outcome: ActionOutcome::Done,
        action,
    };
    let records = actions.into_iter().map(record);
    records
        .map(|record| ActionResult::of(&record, machine, after))
        .collect()
}

#[test]
fn stages_without_an_actuator_are_off_and_named() {
    let machine = machine(2);
    let threads_only = [ActionKind::ThreadMigration, ActionKind::ProcessMigration];
    let mut planner = planner(&machine, System::All).with_actuators(&threads_only);
    let stages: Vec<Stage> = planner
        .unavailable()
        .iter()
        .map(|each| each.stage)
        .collect();
    let missing = [
        Stage::Together,
        Stage::Clusters,
        Stage::Relocation,
        Stage::Limits,
        Stage::Delegation,
    ];
    assert_eq!(stages, missing);
    let decision = planner.decide(&machine, &remote_reader(&machine));
    assert_eq!(decision.threads.moves.len(), 1, "threads still move");
    assert_eq!(decision.unavailable.len(), 5);
    assert_eq!(
        decision.unavailable[1].to_string(),
        "placement of clusters (AsymSched) is off: nothing here carries out migration of memory"
    );
    let none = Planner::new(&machine, System::Full.settings()).with_actuators(&[]);
    assert_eq!(none.unavailable()[0].stage, Stage::Threads);
    let mut none = none;
    let decision = none.decide(&machine, &remote_reader(&machine));
    assert_eq!(decision.threads.moves, []);
    let all = Planner::new(&machine, System::All.settings()).with_actuators(&ActionKind::ALL);
    assert_eq!(all.unavailable(), []);
}

#[test]
fn missed_migrations_are_not_repeated_for_a_while() {
    let machine = machine(2);
    let facts = remote_reader(&machine);
    let mut planner = planner(&machine, System::All);
    let rest_windows = Settings::default().feedback.rest_windows;
    // Whatever is done, the thread is found where it was.
    let mut moved_in = Vec::new();
    let mut last: Option<Decision> = None;
    for number in 0..rest_windows + 15 {
        let mut now = facts.clone();
        now.window.number = u64::from(number);
        now.window.start_ns = u64::from(number) * SECOND_NS;
        if let Some(last) = &last {
            let results = results(&machine, &facts, last, &now);
            assert!(results.iter().all(|result| result.missed), "{results:?}");
            planner.learn(&results);
        }
        let decision = planner.decide(&machine, &now);
        match decision.threads.moves.len() {
            0 => {
                let kept = decision.threads.kept(key(1)).expect("a reason");
                let because = &kept.because;
                assert!(
                    matches!(because, KeptBecause::BroughtTooLittle { .. }),
                    "{because}"
                );
                assert!(
                    because.to_string().contains("less than half of"),
                    "{because}"
                );
            }
            _ => moved_in.push(number),
        }
        last = Some(decision);
    }
    assert_eq!(moved_in[0], 0);
    assert_eq!(
        moved_in[1],
        rest_windows + 1,
        "then once more: {moved_in:?}"
    );
    assert_eq!(moved_in.len(), 2, "and the rest doubles");
}

#[test]
fn migrations_that_met_expectations_may_be_repeated() {
    let machine = machine(2);
    let facts = remote_reader(&machine);
    let mut planner = planner(&machine, System::All);
    let first = planner.decide(&machine, &facts);
    let mut home = facts.clone();
    home.window.threads[0].node = NodeId(0);
    let results = results(&machine, &facts, &first, &home);
    assert_eq!((results[0].measured, results[0].missed), (Some(1.0), false));
    planner.learn(&results);
    planner.decide(&machine, &home);
    // Somebody else put it back.
    let again = planner.decide(&machine, &facts);
    assert_eq!(again.threads.moves.len(), 1);
}

#[test]
fn nthread_as_published_repeats_what_brought_too_little() {
    let machine = machine(2);
    let facts = remote_reader(&machine);
    let mut planner = planner(&machine, System::Full);
    for _ in 0..3 {
        let decision = planner.decide(&machine, &facts);
        assert_eq!(decision.threads.moves.len(), 1);
        let results = results(&machine, &facts, &decision, &facts);
        assert!(results[0].missed);
        planner.learn(&results);
    }
}

#[test]
fn half_of_the_expected_gain_is_enough() {
    let expected = Expectation {
        measure: Measure::LocalShare,
        before: 0.2,
        expected: 1.0,
        windows: 1,
    };
    assert!(expected.is_missed(0.59) && !expected.is_missed(0.61));
    let hardly = Expectation {
        measure: Measure::TotalBytesPerSecond,
        before: 1e9,
        expected: 1.04e9,
        windows: 1,
    };
    assert!(!hardly.is_missed(0.9e9), "too small to be measured");
}
