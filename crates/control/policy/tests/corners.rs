//! What the rules say where two of them meet.

use crate::common;

use common::{key, machine, thread, window};
use egeria_facts::ThreadFacts;
use egeria_machine::{Machine, NodeId};
use egeria_policy::nthread::{Settings, plan, plan_after};
use egeria_policy::{Contention, Displaced, KeptBecause, Plan, Reason};

const MB: u64 = 1_000_000;

fn full(machine: &Machine, threads: Vec<ThreadFacts>) -> Plan {
    plan(machine, &window(machine, threads), &Settings::default())
}

/// The same after a plan that displaced thread 9 from node 0.
fn full_after(machine: &Machine, threads: Vec<ThreadFacts>) -> Plan {
    let displaced = Displaced {
        thread: key(9),
        home: NodeId(0),
        contention: None,
    };
    let before = Plan {
        displaced: vec![displaced],
        ..Plan::default()
    };
    let window = window(machine, threads);
    plan_after(machine, &window, &Settings::default(), &before)
}

/// A thread on `node` that reads 300 MB/s from node 0.
fn reader_of_0(
    machine: &Machine,
    number: u32,
    node: usize,
    written_mb: u64,
    busy: f64,
) -> ThreadFacts {
    thread(machine, number, node, &[300 * MB], written_mb * MB, busy)
}

fn contention_that_keeps(plan: &Plan, number: u32) -> Contention {
    assert!(plan.move_of(key(number)).is_none(), "{:?}", plan.moves);
    match plan.kept(key(number)).map(|kept| &kept.because) {
        Some(KeptBecause::HomeContended { contention }) => *contention,
        other => panic!("{other:?}"),
    }
}

#[test]
fn cpus_are_not_relieved_where_memory_would_be_crowded() {
    let machine = machine(2);
    let mut threads: Vec<_> = (1..=8)
        .map(|number| thread(&machine, number, 0, &[], 30 * MB, 0.5))
        .collect();
    threads.push(thread(&machine, 9, 1, &[], 1400 * MB, 0.2));
    let plan = full(&machine, threads);
    assert_eq!(
        (plan.pm_contended, plan.cpu_contended),
        (None, Some(NodeId(0)))
    );
    assert!(
        plan.moves.is_empty(),
        "node 1 is at 62 % and five times as busy with writes"
    );
    assert!(matches!(plan.kept[0].because, KeptBecause::NoRoom { .. }));
}

#[test]
fn memory_contention_that_can_be_relieved_is_handled_alone() {
    let machine = machine(2);
    let facts = |number| {
        let node = usize::from(number > 4);
        thread(&machine, number, node, &[500 * MB], 70 * MB, 1.0)
    };
    // BW_0 = 4000/3 + 560 = 1893; one writer less is 1823, two are 1753.
    let plan = full(&machine, (1..=8).map(facts).collect());
    assert_eq!(
        (plan.pm_contended, plan.cpu_contended),
        (Some(NodeId(0)), None)
    );
    assert_eq!(plan.displaced.len(), 2);
    assert_eq!(
        plan.expected[0].cpu_share, 1.5,
        "the CPUs are for the next window"
    );
}

#[test]
fn a_displaced_thread_returns_to_a_free_core() {
    let machine = machine(2);
    let home = |number| thread(&machine, number, 0, &[300 * MB], 0, 1.0);
    let mut threads: Vec<_> = (1..=3).map(home).collect();
    threads.push(reader_of_0(&machine, 9, 1, 0, 1.0));
    let plan = full_after(&machine, threads.clone());
    assert_eq!(plan.moves.len(), 1, "three of four cores are taken");
    assert!(matches!(
        plan.moves[0].reason,
        Reason::ContentionOver { .. }
    ));
    threads.push(home(4));
    assert_eq!(
        contention_that_keeps(&full_after(&machine, threads), 9),
        Contention::Cpu
    );
}

#[test]
fn a_returning_thread_counts_as_a_whole_core() {
    let machine = machine(2);
    let mut threads: Vec<_> = (1..=4)
        .map(|number| thread(&machine, number, 0, &[300 * MB], 0, 0.65))
        .collect();
    threads.push(reader_of_0(&machine, 9, 1, 0, 0.3));
    // 0.65 + 0.075 is below 0.75, 0.65 + 0.25 is not.
    assert_eq!(full_after(&machine, threads.clone()).moves.len(), 1);
    threads.extend((10..=14).map(|number| thread(&machine, number, 1, &[], 0, 0.7)));
    assert_eq!(
        contention_that_keeps(&full_after(&machine, threads), 9),
        Contention::Cpu
    );
}

#[test]
fn a_displaced_writer_stays_away_until_its_home_is_half_empty() {
    let machine = machine(2);
    let with = |written_mb: u64| {
        let busy = thread(&machine, 1, 0, &[], written_mb * MB, 0.2);
        full_after(&machine, vec![busy, reader_of_0(&machine, 9, 1, 100, 0.2)])
    };
    // 0.5 * 2267 = 1133 = 933 + 100 + 300/3.
    assert_eq!(with(933).moves.len(), 1);
    assert_eq!(contention_that_keeps(&with(934), 9), Contention::Pm);
}

#[test]
fn contention_sends_nobody_back_to_where_it_was_displaced_from() {
    let machine = machine(3);
    let threads = vec![
        thread(&machine, 1, 0, &[], 1100 * MB, 0.2),
        thread(&machine, 3, 1, &[0, 6000 * MB], 300 * MB, 0.2),
        thread(&machine, 4, 2, &[], 1250 * MB, 0.2),
        reader_of_0(&machine, 9, 1, 300, 0.2),
    ];
    // BW = 1200, 2600, 1250: node 1 is contended, node 0 has room by Eq. 4 but is over half.
    let plan = full_after(&machine, threads);
    assert_eq!(plan.pm_contended, Some(NodeId(1)));
    let step = plan
        .move_of(key(9))
        .expect("the highest write ratio goes first");
    assert_eq!(step.to, NodeId(2), "{step}");
    assert_eq!(
        plan.displaced
            .iter()
            .find(|each| each.thread == key(9))
            .map(|each| each.home),
        Some(NodeId(0))
    );
}

#[test]
fn for_cpus_too_a_thread_already_elsewhere_stays_first() {
    let machine = machine(2);
    let facts = |number, node, read_mb| thread(&machine, number, node, &[read_mb * MB], 0, 0.8);
    let mut threads: Vec<_> = (1..=4).map(|number| facts(number, 0, 300)).collect();
    threads.push(facts(5, 1, 900));
    threads.push(facts(6, 1, 900));
    // Six threads of 0.2 on node 0: four there and two elsewhere is where they are.
    let plan = full(&machine, threads);
    assert_eq!(plan.cpu_contended, Some(NodeId(0)));
    let movers: Vec<_> = plan.moves.iter().map(|step| step.thread).collect();
    assert_eq!(movers, [key(1)], "one more closes the gap");
    assert_eq!(plan.displaced.len(), 3);
}

#[test]
fn for_cpus_too_a_writer_goes_only_where_it_can_write() {
    let machine = machine(3);
    let threads = (1..=8).map(|number| thread(&machine, number, 0, &[], 10 * MB, 0.5));
    let mut window = window(&machine, threads.collect());
    window.nodes[1].has_pool = false;
    let plan = plan(&machine, &window, &Settings::default());
    assert!(!plan.moves.is_empty());
    assert!(
        plan.moves.iter().all(|step| step.to == NodeId(2)),
        "{:?}",
        plan.moves
    );
}

#[test]
fn a_writer_too_large_for_where_it_is_goes_home_all_the_same() {
    let machine = machine(2);
    let threads = vec![
        thread(&machine, 1, 0, &[], 300 * MB, 0.2),
        thread(&machine, 2, 1, &[300 * MB], 1500 * MB, 0.2),
        thread(&machine, 3, 1, &[], 600 * MB, 0.2),
    ];
    // BW_0 would be 1900, BW_1 600: 600 + 1500 is more than what it should relieve.
    let plan = full(&machine, threads);
    assert_eq!(plan.pm_contended, Some(NodeId(0)));
    let step = plan.move_of(key(2)).expect("its data is there");
    assert!(matches!(step.reason, Reason::RemoteReads { .. }), "{step}");
}

#[test]
fn a_thread_too_large_for_a_small_node_goes_home_all_the_same() {
    let mut machine = machine(2);
    machine.emulated.as_mut().expect("emulated").nodes[1].cores = 1;
    let mut threads: Vec<_> = (1..=5)
        .map(|number| thread(&machine, number, 0, &[300 * MB], 0, 0.6))
        .collect();
    threads.push(thread(&machine, 6, 1, &[300 * MB], 0, 1.0));
    threads.push(thread(&machine, 7, 1, &[], 2 * MB, 0.45));
    // Node 0 would be at 1.0, node 1 at 0.45; there the thread alone is 1.0.
    let plan = full(&machine, threads);
    assert_eq!(plan.cpu_contended, Some(NodeId(0)));
    assert!(
        plan.move_of(key(6))
            .is_some_and(|step| step.to == NodeId(0))
    );
}

#[test]
fn equal_reads_have_no_target_even_without_a_margin() {
    let machine = machine(2);
    let facts = thread(&machine, 1, 1, &[500 * MB, 500 * MB], 0, 0.2);
    let mut settings = Settings::default();
    settings
        .set_pair("read_margin_bytes_s=0")
        .expect("in range");
    let plan = plan(&machine, &window(&machine, vec![facts]), &settings);
    assert!(plan.targets.is_empty() && plan.moves.is_empty());
}

#[test]
fn a_thread_never_counts_for_more_than_one_core() {
    let machine = machine(2);
    let late = thread(&machine, 1, 0, &[], 2 * MB, 3.0);
    assert_eq!(full(&machine, vec![late]).measured[0].cpu_share, 0.25);
}

#[test]
fn sharers_that_were_displaced_before_they_shared_go_home() {
    let machine = machine(2);
    let busy = thread(&machine, 1, 0, &[], 1200 * MB, 0.2);
    let mut facts = reader_of_0(&machine, 9, 1, 100, 0.2);
    facts.is_shared = true;
    let plan = full_after(&machine, vec![busy, facts]);
    assert_eq!(plan.move_of(key(9)).map(|step| step.to), Some(NodeId(0)));
}

#[test]
fn a_thread_too_slow_for_a_target_is_not_moved_back() {
    let machine = machine(2);
    let facts =
        |number, node, read_mb: u64, busy| thread(&machine, number, node, &[read_mb * MB], 0, busy);
    let slow = (1..=8).map(|number| facts(number, 0, 150, 0.5));
    let first = full(&machine, slow.collect());
    assert_eq!(
        (first.moves.len(), first.displaced.len()),
        (4, 4),
        "no targets, 4 of 8 leave"
    );
    let faster = |number: u32| facts(number, usize::from(number <= 4), 250, 1.0);
    let next = window(&machine, (1..=8).map(faster).collect());
    let after = plan_after(&machine, &next, &Settings::default(), &first);
    assert!(after.moves.is_empty());
}

#[test]
fn quiet_threads_are_left_out_of_every_stage() {
    let machine = machine(2);
    let facts = |number, written, busy| thread(&machine, number, 0, &[], written, busy);
    let mut threads: Vec<_> = (1..=8).map(|number| facts(number, 2 * MB, 0.5)).collect();
    threads.push(facts(0, MB / 2, 0.5));
    let plan = full(&machine, threads);
    assert!(!plan.moves.is_empty());
    assert_eq!(plan.expected[1].threads as usize, plan.moves.len());
    let mut threads: Vec<_> = (1..=4).map(|number| facts(number, 500 * MB, 0.1)).collect();
    threads
        .iter_mut()
        .for_each(|thread| thread.read_bytes[0] = MB);
    threads.push(facts(9, MB / 2, 0.1));
    let plan = full(&machine, threads);
    assert_eq!(plan.pm_contended, Some(NodeId(0)));
    assert_eq!(plan.expected[1].threads as usize, plan.moves.len());
}
