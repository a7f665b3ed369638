//! Window after window: plans must come to rest, whatever threads do where they were put.
//!
//! `rigid` threads do the same everywhere. The threads of the fluid model become faster when
//! contention goes and slower where their reads are remote, which is what tempts a policy to
//! move them to and fro.

use crate::common;

use common::fluid::{Fluid, Worker};
use common::workloads::fluid;
use common::{key, machine};
use egeria_facts::Window;
use egeria_machine::Machine;
use egeria_policy::nthread::{Configuration, Settings, plan_after};
use egeria_policy::{Plan, Reason};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::RngSeed;

/// The cases are always the same: what is proved is a property of a model, not of luck.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        rng_seed: RngSeed::Fixed(20_261_121),
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

fn configuration() -> impl Strategy<Value = Configuration> {
    prop::sample::select(Configuration::ALL.to_vec())
}

/// The plans of so many windows. `next` makes a window from the plan before.
fn plans(
    machine: &Machine,
    settings: &Settings,
    windows: usize,
    mut next: impl FnMut(&Plan) -> Window,
) -> Vec<Plan> {
    let mut plans: Vec<Plan> = Vec::new();
    let mut last = Plan::default();
    for _ in 0..windows {
        let window = next(&last);
        last = plan_after(machine, &window, settings, &last);
        plans.push(last.clone());
    }
    plans
}

fn fluid_plans(fluid: &Fluid, settings: &Settings, windows: usize) -> Vec<Plan> {
    let mut fluid = fluid.clone();
    plans(&fluid.machine.clone(), settings, windows, |last| {
        fluid.act(last);
        fluid.window()
    })
}

/// The number of the last window with moves, from 1; 0 without any.
fn last_with_moves(plans: &[Plan]) -> usize {
    let position = plans.iter().rposition(|plan| !plan.moves.is_empty());
    position.map_or(0, |position| position + 1)
}

/// The most moves of one thread.
fn max_moves(plans: &[Plan]) -> usize {
    let mut counts = std::collections::HashMap::new();
    for step in plans.iter().flat_map(|plan| &plan.moves) {
        *counts.entry(step.thread).or_insert(0) += 1;
    }
    counts.into_values().max().unwrap_or(0)
}

/// Threads that do the same everywhere: writes go along, nothing else changes.
fn rigid_act(window: &mut Window, plan: &Plan, machine: &Machine) {
    for step in &plan.moves {
        let mut threads = window.threads.iter_mut();
        let thread = threads.find(|thread| thread.key == step.thread);
        let thread = thread.expect("a thread of the window");
        let written = thread.written_total();
        thread.written_bytes.fill(0);
        thread.written_bytes[machine.index_of(step.to).expect("a node")] = written;
        thread.node = step.to;
    }
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn steady_threads_are_at_rest_after_three_windows(
        fluid in fluid(),
        configuration in configuration(),
    ) {
        let machine = fluid.machine.clone();
        let mut window = fluid.clone().window();
        let settings = Settings::of(configuration);
        let plans = plans(&machine, &settings, 8, |last| {
            rigid_act(&mut window, last, &machine);
            window.clone()
        });
        prop_assert!(last_with_moves(&plans) <= 3, "{:?}", lines(&plans));
        prop_assert!(max_moves(&plans) <= 2, "{:?}", lines(&plans));
    }

    #[test]
    fn threads_that_answer_to_contention_never_go_to_and_fro(
        fluid in fluid(),
        configuration in configuration(),
    ) {
        let plans = fluid_plans(&fluid, &Settings::of(configuration), 24);
        // A thread may follow its data, make room and come back; who gets faster as others
        // leave may pass the margin some windows later.
        prop_assert!(max_moves(&plans) <= 3, "{:?}", lines(&plans));
        prop_assert!(last_with_moves(&plans) <= 14, "{:?}", lines(&plans));
    }

    #[test]
    fn moves_in_the_middle_of_a_window_do_not_confuse(
        fluid in fluid(),
        configuration in configuration(),
    ) {
        let mut fluid = fluid;
        let machine = fluid.machine.clone();
        let mut before = fluid.window();
        let plans = plans(&machine, &Settings::of(configuration), 24, |last| {
            fluid.act(last);
            let after = fluid.window();
            let blend = half_and_half(&before, &after);
            before = after;
            blend
        });
        prop_assert!(max_moves(&plans) <= 3, "{:?}", lines(&plans));
        prop_assert!(last_with_moves(&plans) <= 14, "{:?}", lines(&plans));
    }
}

fn lines(plans: &[Plan]) -> Vec<String> {
    let steps = plans
        .iter()
        .flat_map(|plan| plan.moves.iter().map(move |step| (plan, step)));
    steps
        .map(|(plan, step)| format!("window {}: {step}", plan.window))
        .collect()
}

/// A window of which the first half passed before the moves.
fn half_and_half(before: &Window, after: &Window) -> Window {
    let mut blend = after.clone();
    for (thread, earlier) in blend.threads.iter_mut().zip(&before.threads) {
        let counters = thread
            .read_bytes
            .iter_mut()
            .chain(&mut thread.written_bytes);
        let counted = earlier.read_bytes.iter().chain(&earlier.written_bytes);
        counters
            .zip(counted)
            .for_each(|(new, old)| *new = (*new + old) / 2);
        thread.busy_ns = (thread.busy_ns + earlier.busy_ns) / 2;
    }
    blend
}

/// When no thread has to reach the margin first, three windows are enough, but for writers that
/// saturate a node so much that it stays contended while they leave one by one.
#[test]
fn threads_are_at_rest_three_windows_after_contention() {
    let mut runner = proptest::test_runner::TestRunner::new(config(0));
    let (mut late, cases) = (0, 600);
    for _ in 0..cases {
        let drawn = (fluid(), configuration()).new_tree(&mut runner);
        let (fluid, configuration) = drawn.expect("nothing is rejected").current();
        let mut settings = Settings::of(configuration);
        settings.read_margin_bytes_s = 0.0;
        let plans = fluid_plans(&fluid, &settings, 12);
        late += usize::from(last_with_moves(&plans) > 3);
        assert!(last_with_moves(&plans) <= 8, "{:?}", lines(&plans));
    }
    assert!(late * 100 <= cases, "{late} of {cases} later than that");
}

/// Two threads at the edge: together they would contend node 0, apart they do not.
fn edge() -> Fluid {
    let machine = machine(2);
    let worker = |number, node| Worker {
        compute_ns: 500.0,
        ..Worker::fio(number, node, 2, 0.8)
    };
    Fluid::new(machine, (0..4).map(|number| worker(number, 0)).collect())
}

#[test]
fn a_displaced_thread_returns_when_the_contention_is_gone() {
    let mut fluid = edge();
    let settings = Settings::default();
    let first = plans(&fluid.machine.clone(), &settings, 4, |last| {
        fluid.act(last);
        fluid.window()
    });
    let displaced = &first[3].displaced;
    assert!(!displaced.is_empty() && first[3].moves.is_empty());
    let stays = |worker: &Worker| {
        displaced
            .iter()
            .any(|each| each.thread == key(worker.number))
    };
    fluid.workers.retain(stays);
    fluid.workers.truncate(1);
    let window = fluid.window();
    let next = plan_after(&fluid.machine, &window, &settings, &first[3]);
    assert_eq!(next.moves.len(), 1);
    assert!(
        matches!(next.moves[0].reason, Reason::ContentionOver { .. }),
        "{}",
        next.moves[0]
    );
    assert!(next.displaced.is_empty());
}

#[test]
fn a_displaced_thread_that_pauses_is_not_forgotten() {
    let mut fluid = edge();
    let (settings, machine) = (Settings::default(), fluid.machine.clone());
    let first = plans(&machine, &settings, 4, |last| {
        fluid.act(last);
        fluid.window()
    });
    let mut paused = fluid.window();
    for thread in &mut paused.threads {
        thread.read_bytes.fill(0);
        thread.written_bytes.fill(0);
    }
    let pause = plan_after(&machine, &paused, &settings, &first[3]);
    let names = |plan: &Plan| {
        plan.displaced
            .iter()
            .map(|each| each.thread)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&pause), names(&first[3]));
    let again = fluid.window();
    let plan = plan_after(&machine, &again, &settings, &pause);
    assert!(plan.moves.is_empty());
}

#[test]
fn rl_brings_displaced_threads_home_at_once() {
    let mut fluid = edge();
    let machine = fluid.machine.clone();
    let first = plans(&machine, &Settings::default(), 4, |last| {
        fluid.act(last);
        fluid.window()
    });
    let window = fluid.window();
    let settings = Settings::of(Configuration::Rl);
    let next = plan_after(&machine, &window, &settings, &first[3]);
    assert_eq!(next.moves.len(), first[3].displaced.len());
}
