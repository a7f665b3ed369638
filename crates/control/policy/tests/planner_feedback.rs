//! Window after window: the whole planner comes to rest, whatever threads and data do where they were put.

use crate::common;
use crate::data;

use std::collections::BTreeMap;

use common::fluid::Fluid;
use common::workloads::fluid;
use data::{File, World};
use egeria_machine::NodeId;
use egeria_policy::planner::{Decision, Planner, Relocate, RelocationReason, Settings, System};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};

/// The cases are always the same: what is proved is a property of a model, not of luck.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(20_261_122),
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::with_cases(cases)
    }
}

/// Each worker's data is a file of its own, or one that all who share use.
fn world(fluid: Fluid, bytes: f64) -> World {
    let nodes = fluid.machine.nodes.len();
    let file = |data: &[f64]| File {
        bytes,
        on: data.iter().map(|share| share * bytes).collect(),
        replicas: vec![false; nodes],
    };
    let files = fluid
        .workers
        .iter()
        .map(|worker| file(&worker.data))
        .collect();
    let shared = fluid.workers.iter().position(|worker| worker.is_shared);
    let uses = fluid.workers.iter().enumerate();
    let uses = uses.map(|(index, worker)| {
        if worker.is_shared {
            shared.unwrap_or(index)
        } else {
            index
        }
    });
    let uses = uses.collect();
    World::new(fluid, files, uses)
}

fn run(world: &mut World, settings: &Settings, windows: usize) -> Vec<Decision> {
    let machine = world.fluid.machine.clone();
    let mut planner = Planner::new(&machine, settings.clone());
    let mut all = Vec::new();
    for _ in 0..windows {
        let decision = planner.decide(&machine, &world.facts());
        world.act(&decision);
        all.push(decision);
    }
    all
}

fn lines(decisions: &[Decision]) -> Vec<String> {
    let of = |(window, decision): (usize, &Decision)| {
        let threads = decision.threads.moves.iter().map(ToString::to_string);
        let files = decision.relocations.iter().map(ToString::to_string);
        let told = threads.chain(files).map(|line| format!("{window}: {line}"));
        told.collect::<Vec<_>>()
    };
    decisions.iter().enumerate().flat_map(of).collect()
}

/// The number of the last window in which something moved, from 1; 0 without any.
fn last_with_moves(decisions: &[Decision]) -> usize {
    let moves = |decision: &Decision| decision.threads.moves.len() + decision.relocations.len();
    let position = decisions.iter().rposition(|decision| moves(decision) > 0);
    position.map_or(0, |position| position + 1)
}

fn max_moves_of_a_thread(decisions: &[Decision]) -> usize {
    let mut counts = BTreeMap::new();
    for step in decisions
        .iter()
        .flat_map(|decision| &decision.threads.moves)
    {
        *counts.entry(step.thread).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// How often a file's data went to a node that some of it had left, of the file that did so most; what is undone does not
/// count.
fn max_returns_of_a_file(decisions: &[Decision]) -> usize {
    let mut files: BTreeMap<_, (Vec<NodeId>, usize)> = BTreeMap::new();
    for step in decisions.iter().flat_map(|decision| &decision.relocations) {
        let is_undone = matches!(step.why, RelocationReason::BroughtLess { .. });
        if let Relocate::Move { from, to } = step.action
            && !is_undone
        {
            let (left, returns) = files.entry(step.file).or_default();
            *returns += usize::from(left.contains(&to));
            left.push(from);
        }
    }
    files.into_values().map(|file| file.1).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn threads_and_data_come_to_rest(
        fluid in fluid(),
        (bytes, share) in prop::sample::select(vec![(0.02e9, 0.05), (0.2e9, 1.0), (2e9, 1.0)]),
    ) {
        let mut settings = System::All.settings();
        settings.budget.share = share;
        let mut world = world(fluid, bytes);
        let decisions = run(&mut world, &settings, 150);
        prop_assert!(last_with_moves(&decisions) <= 120, "{:#?}", lines(&decisions));
        prop_assert!(max_moves_of_a_thread(&decisions) <= 5, "{:#?}", lines(&decisions));
        prop_assert!(max_returns_of_a_file(&decisions) == 0, "{:#?}", lines(&decisions));
    }
}

/// Predicted gains are upper bounds, for nobody knows how long threads compute between two reads: a step may lose a little.
#[test]
fn moving_data_too_is_rarely_worse_than_threads_alone() {
    let mut runner = TestRunner::new(config(0));
    let (mut worse, mut sum_of_logs, cases) = (0, 0.0, 120);
    for _ in 0..cases {
        let fluid = fluid()
            .new_tree(&mut runner)
            .expect("nothing is rejected")
            .current();
        let mut settings = System::All.settings();
        settings.budget.share = 1.0;
        let mut threads_only = world(fluid.clone(), 0.2e9);
        run(&mut threads_only, &System::Full.settings(), 30);
        let mut all = world(fluid, 0.2e9);
        let decisions = run(&mut all, &settings, 60);
        let ratio = all.bytes_s() / threads_only.bytes_s();
        assert!(ratio > 0.8, "{ratio}: {:#?}", lines(&decisions));
        worse += usize::from(ratio < 0.95);
        sum_of_logs += ratio.ln();
    }
    let mean = (sum_of_logs / f64::from(cases)).exp();
    assert!(
        worse <= 2 && mean > 1.15,
        "{worse} of {cases} worse, mean {mean}"
    );
}
