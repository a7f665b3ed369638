//! What no decision may do, whatever the facts.

use crate::clusters;
use crate::common;
use crate::whole;

use std::collections::BTreeSet;

use egeria_facts::Facts;
use egeria_facts::{FileKey, ThreadFacts};
use egeria_machine::{CpuId, Machine, NodeId};
use egeria_policy::planner::{
    Decision, DelegationPlan, Planner, Relocate, RelocationReason, Settings, System,
};
use proptest::prelude::*;
use whole::{is_of, obeyed_all, whole};

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

fn history(machine: &Machine, facts: &Facts, settings: &Settings) -> Vec<(Facts, Decision)> {
    long_history(machine, facts, settings, 4)
}

fn long_history(
    machine: &Machine,
    facts: &Facts,
    settings: &Settings,
    windows: usize,
) -> Vec<(Facts, Decision)> {
    let mut planner = Planner::new(machine, settings.clone());
    let (mut facts, mut all) = (facts.clone(), Vec::new());
    for _ in 0..windows {
        let decision = planner.decide(machine, &facts);
        let next = obeyed_all(machine, &facts, &decision);
        all.push((std::mem::replace(&mut facts, next), decision));
    }
    all
}

/// Any system, with some of its stages the other way round.
fn settings() -> impl Strategy<Value = Settings> {
    let flips = prop::collection::vec(prop::bool::weighted(0.2), 7);
    (prop::sample::select(System::ALL.to_vec()), flips).prop_map(|(system, flips)| {
        let mut settings = system.settings();
        let stages = &mut settings.stages;
        let all = [
            &mut stages.together,
            &mut stages.clusters,
            &mut stages.bandwidth,
            &mut stages.relocation,
            &mut stages.limits,
            &mut stages.delegation,
            &mut stages.budget,
        ];
        all.into_iter()
            .zip(flips)
            .for_each(|(stage, flip)| *stage ^= flip);
        settings
    })
}

/// Every order about a thread: where it should go.
fn orders(decision: &Decision, thread: &ThreadFacts) -> Vec<NodeId> {
    let alone = decision.threads.moves.iter();
    let alone = alone
        .filter(|step| step.thread == thread.key)
        .map(|step| step.to);
    let together = decision.placement.moves.iter();
    let together = together
        .filter(|step| is_of(step, thread))
        .map(|step| step.to);
    let single = decision.placement.single.iter();
    let single = single
        .filter(|step| step.thread == thread.key)
        .map(|step| step.to);
    alone.chain(together).chain(single).collect()
}

fn all_lines(decision: &Decision) -> Vec<String> {
    let mut lines: Vec<String> = decision
        .threads
        .moves
        .iter()
        .map(ToString::to_string)
        .collect();
    lines.extend(decision.threads.kept.iter().map(ToString::to_string));
    lines.extend(decision.placement.moves.iter().map(ToString::to_string));
    lines.extend(decision.placement.memory.iter().map(ToString::to_string));
    lines.extend(decision.limits.iter().map(ToString::to_string));
    lines.extend(decision.relocations.iter().map(ToString::to_string));
    lines.extend([
        decision.placement.decision.to_string(),
        decision.delegation.to_string(),
    ]);
    lines
}

proptest! {
    #![proptest_config(config(200))]

    #[test]
    fn a_thread_gets_one_order_and_only_to_where_it_may_run(
        (machine, facts) in whole(),
        settings in settings(),
    ) {
        for (facts, decision) in history(&machine, &facts, &settings) {
            for thread in &facts.window.threads {
                let orders = orders(&decision, thread);
                prop_assert!(orders.len() <= 1, "{}: {orders:?}", thread.key);
                for to in orders {
                    let node = machine.node(to).expect("a node of the machine");
                    let mut cpus = node.cpus.iter();
                    prop_assert!(!thread.pinned, "{}", thread.key);
                    prop_assert!(cpus.any(|&cpu| thread.allowed_cpus.contains(cpu)), "{}", thread.key);
                }
            }
        }
    }

    /// Files stay where they are: `planner_feedback` is about those. Nobody waits for his budget.
    #[test]
    fn steady_threads_and_clusters_come_to_rest(
        (machine, mut facts) in whole(),
        settings in settings(),
    ) {
        for process in &mut facts.accesses.processes {
            process.running_ns = 1_000_000 * clusters::GB;
        }
        let all = long_history(&machine, &facts, &settings, 16);
        for (window, (_, decision)) in all.iter().enumerate().skip(10) {
            // What comes together changes what other stages see: the next property is about that.
            if settings.stages.together {
                break;
            }
            let moves = (&decision.threads.moves, &decision.placement.moves);
            prop_assert!(moves.0.is_empty() && moves.1.is_empty(), "{window}: {moves:?}");
        }
    }

    /// In these worlds speeds of memories and threads' accesses do not fit each other, so stages correct each other.
    #[test]
    fn a_steady_thread_is_moved_a_few_times_at_most(
        (machine, mut facts) in whole(),
        settings in settings(),
    ) {
        for process in &mut facts.accesses.processes {
            process.running_ns = 1_000_000 * clusters::GB;
        }
        let all = long_history(&machine, &facts, &settings, 60);
        for thread in &facts.window.threads {
            let moves = all.iter().map(|(_, decision)| orders(decision, thread).len());
            let moves: usize = moves.sum();
            prop_assert!(moves <= 8, "{}: {moves}", thread.key);
        }
    }

    #[test]
    fn data_goes_where_it_can_be_written_and_each_file_once(
        (machine, facts) in whole(),
        settings in settings(),
    ) {
        for (facts, decision) in history(&machine, &facts, &settings) {
            let mut told: BTreeSet<(FileKey, Option<NodeId>)> = BTreeSet::new();
            for step in &decision.relocations {
                let file = facts.files.iter().find(|file| file.file == step.file).expect("a file");
                let index = |node| machine.index_of(node).expect("a node of the machine");
                let (place, to) = match step.action {
                    Relocate::Move { from, to } => {
                        prop_assert!(from != to && step.bytes <= file.on(index(from)), "{step}");
                        (None, Some(to))
                    }
                    Relocate::Replicate { from, to } => {
                        prop_assert!(from != to && !file.has_replica(index(to)), "{step}");
                        prop_assert!(file.written_bytes == 0, "{step}");
                        (None, Some(to))
                    }
                    Relocate::Drop { on } => {
                        prop_assert!(file.has_replica(index(on)), "{step}");
                        (Some(on), None)
                    }
                };
                prop_assert!(told.insert((step.file, place)), "{step}");
                if let Some(to) = to {
                    prop_assert!(facts.window.nodes[index(to)].has_pool, "{step}");
                    // Only what is hardly used goes to where nobody reads it near.
                    let makes_room = matches!(step.why, RelocationReason::MakesRoom { .. });
                    prop_assert_eq!(machine.nodes[index(to)].cpus.is_empty(), makes_room, "{}", step);
                    prop_assert!(step.bytes_s > 0.0 && step.bytes_s.is_finite(), "{step}");
                    let media = facts.media.iter().find(|medium| medium.node == to);
                    let free = media.and_then(|medium| medium.free_bytes);
                    prop_assert!(free.is_none_or(|free| step.bytes <= free), "{step}");
                }
            }
        }
    }

    #[test]
    fn same_facts_same_decision_in_any_order_of_everything(
        (machine, facts) in whole(),
        settings in settings(),
    ) {
        let mut turned = facts.clone();
        turned.window.threads.reverse();
        turned.accesses.processes.reverse();
        turned.media.reverse();
        turned.files.reverse();
        let (mut one, mut other) = (
            Planner::new(&machine, settings.clone()),
            Planner::new(&machine, settings),
        );
        for _ in 0..3 {
            prop_assert_eq!(one.decide(&machine, &facts), other.decide(&machine, &turned));
        }
    }

    #[test]
    fn decisions_are_told_in_single_lines_and_read_back(
        (machine, facts) in whole(),
        settings in settings(),
    ) {
        for (_, decision) in history(&machine, &facts, &settings) {
            for line in all_lines(&decision) {
                let good = line.len() > 10 && !line.contains('\n') && !line.contains("NaN");
                prop_assert!(good && !line.contains("inf"), "{line}");
            }
            let text = serde_json::to_string(&decision).expect("plain data");
            let again: Decision = serde_json::from_str(&text).expect("what was written");
            prop_assert_eq!(all_lines(&again), all_lines(&decision));
        }
    }

    #[test]
    fn no_limit_is_below_the_delegates(
        (machine, facts) in whole(),
        delegates in 1..40_u32,
        always: bool,
    ) {
        let mut settings = System::All.settings();
        settings.delegation.delegates_per_node = delegates;
        settings.delegation.always = always;
        for (_, decision) in history(&machine, &facts, &settings) {
            let is_on = matches!(decision.delegation, DelegationPlan::On { .. });
            let mut nodes = machine.nodes.iter();
            let has_any = nodes.any(|node| machine.has_persistent_memory(node));
            prop_assert_eq!(is_on && always, has_any && always);
            for limit in &decision.limits {
                let least = if is_on { delegates } else { 0 };
                let own = limit.bears.unwrap_or(limit.decision.limit);
                prop_assert!(own >= limit.decision.limit);
                prop_assert_eq!(limit.threads, own.max(least));
                prop_assert_eq!(limit.delegates.is_some(), limit.delegates == Some(least) && own < least);
            }
        }
    }

    #[test]
    fn nonsense_gets_an_answer_all_the_same(
        (machine, mut facts) in whole(),
        settings in settings(),
        duration_ns in prop_oneof![Just(0), Just(1), Just(u64::MAX)],
        huge in prop::collection::vec((0..40_usize, 0..9_usize), 0..9),
        length in 0..9_usize,
        number in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(f64::MAX)],
        stray in any::<u16>(),
    ) {
        facts.window.duration_ns = duration_ns;
        facts.window.nodes.truncate(length);
        for (thread, index) in huge {
            if let Some(thread) = facts.window.threads.get_mut(thread) {
                thread.read_bytes.resize(index, u64::MAX);
                thread.written_bytes.resize(length, u64::MAX);
                thread.busy_ns = u64::MAX;
                thread.node = NodeId(stray);
            }
            if let Some(file) = facts.files.get_mut(index) {
                file.read_bytes.resize(length, vec![u64::MAX; index]);
                file.bytes_on.resize(length, u64::MAX);
                (file.bytes, file.written_bytes) = (u64::MAX, u64::MAX / 2);
                file.replicas.resize(index, true);
            }
            if let Some(medium) = facts.media.get_mut(index) {
                medium.node = NodeId(stray);
                medium.measured.pm_bytes_s = number;
                medium.measured.mix.mean_bytes = number;
                medium.measured.mix.write_share = number;
            }
            for process in &mut facts.accesses.processes {
                process.running_ns = u64::MAX;
                process.nodes.iter_mut().for_each(|each| each.accesses_s.resize(index, number));
            }
        }
        facts.files.extend(facts.files.clone());
        facts.media.extend(facts.media.clone());
        let mut planner = Planner::new(&machine, settings);
        for _ in 0..3 {
            let decision = planner.decide(&machine, &facts);
            for step in &decision.threads.moves {
                prop_assert!(machine.index_of(step.to).is_some());
            }
            for line in all_lines(&decision) {
                prop_assert!(!line.contains('\n'), "{line}");
            }
        }
    }
}

/// The properties above are not about nothing.
#[test]
fn generated_scenes_make_every_stage_decide_something() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = [0; 5];
    // What the stages want, whether it pays or not.
    let mut settings = System::All.settings();
    settings.stages.feedback = false;
    for _ in 0..150 {
        let (machine, facts) = whole()
            .new_tree(&mut runner)
            .expect("nothing is rejected")
            .current();
        for (_, decision) in history(&machine, &facts, &settings) {
            let is_on = matches!(decision.delegation, DelegationPlan::On { .. });
            let counts = [
                decision.threads.moves.len(),
                decision.placement.moves.len(),
                decision.relocations.len(),
                decision
                    .limits
                    .iter()
                    .filter(|limit| limit.threads > 0)
                    .count(),
                usize::from(is_on),
            ];
            seen.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
    }
    assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
}

/// What a property found: thread 4, alone, went to and fro. The CPUs of one node sent it to the other, whose persistent memory was not
/// contended by the sum of the threads' bytes, but by the medium's curve, with one thread more there.
#[test]
fn threads_moved_for_cpus_stay_away() {
    let machine = common::machine(2);
    // Node, bytes read from each, written, ns busy, the last CPU it may use, whether it shares a file.
    let threads: [(usize, [u64; 2], u64, u64, u16, bool); 16] = [
        (0, [320229, 748249141], 351814745, 165077020, 4, true),
        (1, [0, 0], 0, 291718566, 7, false),
        (1, [1643939, 2456588902], 1068993, 909537112, 1, false),
        (1, [821575, 0], 766591135, 597590936, 7, true),
        (0, [1561468, 0], 2367629543, 46335665, 7, false),
        (1, [505727821, 446183513], 772047368, 857242107, 1, false),
        (1, [5675682, 520054], 1322406, 32689804, 7, false),
        (1, [0, 288794268], 202999, 477505716, 0, false),
        (0, [2550957379, 167037889], 2312590739, 330777207, 7, false),
        (0, [0, 838095], 1354780099, 242030197, 7, true),
        (0, [0, 0], 1655045, 95412988, 7, true),
        (0, [1795832825, 0], 252226711, 127392821, 5, false),
        (0, [206415821, 2503968327], 0, 476987360, 7, true),
        (1, [1552201, 1603855916], 1256698373, 996341990, 6, false),
        (0, [0, 102296353], 128416577, 175715926, 7, false),
        (1, [38080316, 0], 431011666, 11538047, 7, false),
    ];
    let threads = (0..).zip(threads);
    let threads = threads.map(
        |(number, (node, read, written, busy_ns, last_cpu, shared))| {
            let mut facts = common::thread(&machine, number, node, &read, written, 0.0);
            facts.busy_ns = busy_ns;
            facts.allowed_cpus = (0..=last_cpu).map(CpuId).collect();
            facts.is_shared = shared;
            facts.pinned = number == 3;
            facts
        },
    );
    let facts = Facts::of(common::window(&machine, threads.collect()));
    let all = long_history(&machine, &facts, &System::Full.settings(), 16);
    let moves = all.iter().map(|(_, decision)| decision.threads.moves.len());
    let moves: Vec<usize> = moves.collect();
    assert!(moves[0] > 0, "{moves:?}");
    assert!(moves[10..].iter().all(|moves| *moves == 0), "{moves:?}");
}
