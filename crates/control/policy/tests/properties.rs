//! What no plan may do, whatever the window.

use crate::common;

use common::SECOND_NS;
use common::scenes::{plan_before, scene};
use egeria_facts::{ThreadFacts, Window};
use egeria_machine::{Machine, NodeId};
use egeria_policy::nthread::{Configuration, Settings, plan_after};
use egeria_policy::{Contention, KeptBecause, Plan, Reason};
use proptest::prelude::*;

fn configuration() -> impl Strategy<Value = Configuration> {
    prop::sample::select(Configuration::ALL.to_vec())
}

/// With threads that the plan before displaced.
fn plan(machine: &Machine, window: &Window, settings: &Settings) -> Plan {
    plan_after(machine, window, settings, &plan_before(machine, window))
}

fn facts_of(window: &Window, thread: egeria_facts::ThreadKey) -> &ThreadFacts {
    window.thread(thread).expect("a thread of the window")
}

/// Bytes written to and time run on each node when threads are where `place` says.
fn sums(machine: &Machine, window: &Window, plan: Option<&Plan>) -> Vec<(u64, u64)> {
    let mut sums = vec![(0, 0); machine.nodes.len()];
    for facts in &window.threads {
        let step = plan.and_then(|plan| plan.move_of(facts.key));
        let node = step.map_or(facts.node, |step| step.to);
        let sum = &mut sums[machine.index_of(node).expect("a node of the machine")];
        sum.0 += facts.written_total();
        sum.1 += facts.busy_ns;
    }
    sums
}

/// Eq. 6 for a node whose threads ran so long together; 0 without CPUs.
fn cpu_share(machine: &Machine, node: NodeId, busy_ns: u64) -> f64 {
    let cores = match machine.emulated_node(node) {
        Some(emulated) => f64::from(emulated.cores),
        None => machine.node(node).expect("a node").cpus.len() as f64,
    };
    if cores == 0.0 {
        return 0.0;
    }
    busy_ns as f64 / (SECOND_NS as f64 * cores)
}

/// Failures are told, not kept in files.
fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn same_window_same_plan_in_any_order_of_threads(
        (machine, window) in scene(),
        configuration in configuration(),
        turn in 0..40_usize,
    ) {
        let settings = Settings::of(configuration);
        let first = plan(&machine, &window, &settings);
        prop_assert_eq!(&plan(&machine, &window, &settings), &first);
        let mut turned = window.clone();
        turned.threads.reverse();
        let length = turned.threads.len().max(1);
        turned.threads.rotate_left(turn % length);
        prop_assert_eq!(&plan(&machine, &turned, &settings), &first);
    }

    #[test]
    fn off_moves_nothing((machine, window) in scene()) {
        let plan = plan(&machine, &window, &Settings::of(Configuration::Off));
        prop_assert!(plan.moves.is_empty() && plan.displaced.is_empty());
        prop_assert_eq!(plan.measured, plan.expected);
    }

    #[test]
    fn only_threads_with_io_move_and_only_where_they_may_run(
        (machine, window) in scene(),
        configuration in configuration(),
    ) {
        let settings = Settings::of(configuration);
        let plan = plan(&machine, &window, &settings);
        for step in &plan.moves {
            let facts = facts_of(&window, step.thread);
            let node = machine.node(step.to).expect("a node of the machine");
            prop_assert!(facts.moved_total() as f64 >= settings.min_io_bytes_s);
            prop_assert!(!facts.pinned);
            let mut cpus = node.cpus.iter();
            prop_assert!(cpus.any(|&cpu| facts.allowed_cpus.contains(cpu)), "{step}");
            prop_assert!(step.from == facts.node && step.to != step.from);
        }
        let threads: Vec<_> = plan.moves.iter().map(|step| step.thread).collect();
        prop_assert!(threads.is_sorted_by(|one, other| one < other), "each at most once");
    }

    #[test]
    fn sharing_threads_never_leave_for_contention((machine, window) in scene()) {
        let plan = plan(&machine, &window, &Settings::default());
        for step in plan.moves.iter().filter(|step| step.reason.contention().is_some()) {
            prop_assert!(!facts_of(&window, step.thread).is_shared, "{step}");
        }
        for each in plan.displaced.iter().filter(|each| each.contention.is_some()) {
            prop_assert!(!facts_of(&window, each.thread).is_shared);
        }
    }

    #[test]
    fn contention_moves_nobody_where_eq_4_or_eq_5_fails(
        (machine, window) in scene(),
        configuration in configuration(),
    ) {
        let plan = plan(&machine, &window, &Settings::of(configuration));
        let after = sums(&machine, &window, Some(&plan));
        let known = plan.expected.iter().filter(|load| load.pm_maximum_bytes_s.is_some());
        let count = known.clone().count().max(1) as f64;
        let average = known.map(|load| load.pm_bytes_s).sum::<f64>() / count;
        for step in &plan.moves {
            let node = machine.index_of(step.to).expect("a node");
            // Who stays away from a contended home is no migration, and may fill a node further.
            let filled = plan.displaced.iter().any(|each| {
                let stays = plan.move_of(each.thread).is_none();
                stays && facts_of(&window, each.thread).node == step.to
            });
            match step.reason.contention() {
                Some(Contention::Pm) if !filled => {
                    let bytes_s = plan.expected[node].pm_bytes_s;
                    prop_assert!(bytes_s <= average * 1.000_001, "Eq. 4: {step}");
                }
                Some(Contention::Cpu) if !filled => {
                    let share = cpu_share(&machine, step.to, after[node].1);
                    prop_assert!(share <= 0.900_001, "Eq. 5: {step}");
                }
                _ => {}
            }
        }
    }

    #[test]
    fn expected_loads_are_what_the_moves_make(
        (machine, window) in scene(),
        configuration in configuration(),
    ) {
        let plan = plan(&machine, &window, &Settings::of(configuration));
        for (loads, place) in [(&plan.measured, None), (&plan.expected, Some(&plan))] {
            for (load, sums) in loads.iter().zip(sums(&machine, &window, place)) {
                let off_bytes_s = load.written_bytes_s - sums.0 as f64;
                prop_assert!(off_bytes_s.abs() < 1.0, "{load:?} {sums:?}");
                let share = cpu_share(&machine, load.node, sums.1);
                prop_assert!((load.cpu_share - share).abs() < 1e-9, "{load:?} {sums:?}");
            }
        }
        let reads = |loads: &[egeria_policy::NodeLoad]| -> Vec<f64> {
            loads.iter().map(|load| load.read_bytes_s).collect()
        };
        prop_assert_eq!(reads(&plan.expected), reads(&plan.measured), "data never moves");
    }

    #[test]
    fn every_thread_with_data_elsewhere_moves_or_says_why(
        (machine, window) in scene(),
        configuration in configuration(),
    ) {
        let settings = Settings::of(configuration);
        let plan = plan(&machine, &window, &settings);
        for target in &plan.targets {
            let facts = facts_of(&window, target.thread);
            let step = plan.move_of(target.thread);
            let node = step.map_or(facts.node, |step| step.to);
            let told = step.is_some_and(|step| step.reason.contention().is_some())
                || plan.kept(target.thread).is_some();
            prop_assert!(node == target.node || told, "{target:?}");
        }
        for kept in &plan.kept {
            let line = kept.to_string();
            prop_assert!(!line.is_empty() && !line.contains('\n'));
            prop_assert!(plan.move_of(kept.thread).is_none(), "{}", line);
        }
    }

    #[test]
    fn plans_survive_json((machine, window) in scene(), configuration in configuration()) {
        let plan = plan(&machine, &window, &Settings::of(configuration));
        let text = serde_json::to_string(&plan).expect("plain data");
        let back: Plan = serde_json::from_str(&text).expect("what was written");
        let moves = |plan: &Plan| plan.moves.iter().map(ToString::to_string).collect::<Vec<_>>();
        prop_assert_eq!(moves(&back), moves(&plan));
        prop_assert_eq!(back.displaced, plan.displaced);
    }

    #[test]
    fn nonsense_in_a_window_gives_a_plan_all_the_same(
        (machine, mut window) in scene(),
        duration_ns in prop_oneof![Just(0), Just(1), Just(u64::MAX)],
        huge in prop::collection::vec((0..40_usize, 0..9_usize), 0..9),
        length in 0..9_usize,
        stray in any::<u16>(),
    ) {
        window.duration_ns = duration_ns;
        window.nodes.truncate(length);
        for (thread, index) in huge {
            let Some(facts) = window.threads.get_mut(thread) else { continue };
            facts.read_bytes.resize(index, u64::MAX);
            facts.written_bytes.resize(length, u64::MAX);
            facts.busy_ns = u64::MAX;
            facts.node = NodeId(stray);
        }
        let plan = plan(&machine, &window, &Settings::default());
        for step in &plan.moves {
            prop_assert!(machine.index_of(step.to).is_some());
        }
    }
}

#[test]
fn reasons_and_causes_are_sentences() {
    let node = NodeId(1);
    let remote = Reason::RemoteReads {
        target: node,
        target_bytes_s: 1.05e9,
        next_bytes_s: 0.0,
        margin_bytes_s: 200e6,
    };
    assert_eq!(
        remote.to_string(),
        "it reads 1.05 GB/s from node 1 and at most 0 B/s from any other; 200 MB/s more is enough"
    );
    let kept = KeptBecause::HomeContended {
        contention: Contention::Pm,
    };
    assert_eq!(
        kept.to_string(),
        "the node of its data would be contended for persistent memory"
    );
}
