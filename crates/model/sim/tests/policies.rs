//! Policies in the model: the code of the steward, and what it does to a workload.

use crate::common;
use common::*;
use egeria_machine::Machine;
use egeria_policy::planner::{Make, System};
use egeria_sim::{Allocation, Options, Outcome, Phase, Workload};
use proptest::prelude::*;

/// The policy of the how-to.
#[path = "../../../../docs/how-to/follow_writes.rs"]
mod follow_writes;

fn run(workload: &Workload, system: System) -> Outcome {
    egeria_sim::run(&optane(), workload, &options(system)).unwrap()
}

/// Half of the threads far from their data, as a scheduler leaves them.
fn scattered(count: u64, phase: Phase) -> Workload {
    let (files, mut readers) = threads("fio", count, 0, 0, phase);
    readers.start_node = None;
    workload(vec![(files, readers)])
}

#[test]
fn threads_go_to_their_data_and_get_more() {
    let workload = scattered(4, reading(2000.0));
    let off = run(&workload, System::Off);
    let rl = run(&workload, System::Rl);
    assert_eq!((off.moves, rl.moves), (0, 2));
    close(off.local_share, {
        // Two local and two remote threads, each at its own pace.
        let speed = optane().emulated.unwrap().nodes[0].clone();
        let (near, far) = (2e-6 + read_s(&speed, false), 2e-6 + read_s(&speed, true));
        (1.0 / near) / (1.0 / near + 1.0 / far)
    });
    close(rl.local_share, 1.0);
    assert!(rl.operations_s > off.operations_s * 1.1);
}

#[test]
fn writers_leave_a_contended_node_and_stay_away() {
    let mixed = Phase {
        read_share: 0.6,
        ..reading(1000.0)
    };
    let workload = scattered(8, mixed);
    let rl = run(&workload, System::Rl);
    let full = run(&workload, System::Full);
    assert!(full.operations_s > rl.operations_s * 1.1);
    assert!(
        full.max_moves_per_thread <= 1,
        "{}",
        full.max_moves_per_thread
    );
}

#[test]
fn a_pinned_thread_stays() {
    let (files, mut readers) = threads("fio", 4, 1, 0, reading(1000.0));
    readers.pinned = true;
    let outcome = run(&workload(vec![(files, readers)]), System::Full);
    assert_eq!(outcome.moves, 0);
}

#[test]
fn the_same_run_gives_the_same_outcome() {
    let mixed = Phase {
        read_share: 0.6,
        ..reading(1000.0)
    };
    let workload = scattered(8, mixed);
    let once = run(&workload, System::Full);
    assert_eq!(once, run(&workload, System::Full));
}

#[test]
fn phases_come_in_turn() {
    let quick = Phase {
        seconds: Some(1.0),
        ..reading(1000.0)
    };
    let slow = Phase {
        seconds: Some(1.0),
        ..reading(100_000.0)
    };
    let (files, mut readers) = threads("fio", 1, 0, 0, quick);
    readers.phases.push(slow);
    let mut workload = workload(vec![(files, readers)]);
    workload.warm_up_seconds = 0.0;
    let outcome = run(&workload, System::Off);
    for (index, window) in outcome.windows.iter().enumerate() {
        let is_quick = window.operations_s > 100_000.0;
        assert_eq!(is_quick, index % 2 == 0, "{index}: {}", window.operations_s);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the workload: no NaN, no more than cores and media have, nothing out of nothing.
    #[test]
    fn no_run_gives_more_than_there_is(
        groups in prop::collection::vec(
            (1u64..20, 0u16..2, 0u16..2, 0.0f64..=1.0, 1u64..2_000_000, 0.0f64..1e6, 0.0f64..1e6, any::<bool>()),
            1..5,
        ),
        system in prop::sample::select(System::ALL.to_vec()),
        window_ns in 50_000_000u64..2_000_000_000,
    ) {
        let groups = groups.into_iter().enumerate().map(|(index, group)| {
            let (count, on, data_on, read_share, request_bytes, think_ns, idle_ns, shared) = group;
            let phase = Phase { seconds: None, read_share, request_bytes, think_ns, idle_ns, ..Phase::default() };
            let (mut files, mut made) = threads(&format!("g{index}"), count, on, data_on, phase);
            files.bytes = 1_000_000;
            made.shared = shared;
            (files, made)
        });
        let workload = workload(groups.collect());
        let options = egeria_sim::Options { window_ns, ..options(system) };
        let outcome = egeria_sim::run(&optane(), &workload, &options).unwrap();
        prop_assert!(outcome.operations_s.is_finite() && outcome.operations_s > 0.0);
        prop_assert!((0.0..=1.0 + 1e-9).contains(&outcome.local_share));
        for window in &outcome.windows {
            for node in &window.nodes {
                let busy = node.busy_share;
                prop_assert!((0.0..=1.0 + 1e-6).contains(&busy), "{busy}");
                // Reads may come from a cache; writes never do.
                prop_assert!(node.written_bytes_s <= 1.85e9 * (1.0 + 1e-6));
            }
        }
        let last = outcome.windows.last().unwrap();
        let there: u32 = last.nodes.iter().map(|node| node.threads).sum();
        prop_assert_eq!(u64::from(there), workload.thread_count());
    }
}

/// Readers of one file that are bound to both nodes: data that moves goes in parts, and all get more.
#[test]
fn part_of_a_file_goes_where_it_is_moved() {
    let (mut files, mut readers) = threads("fio", 4, 0, 0, reading(0.0));
    (files.count, files.bytes) = (1, 200_000_000);
    (readers.pinned, readers.shared) = (true, true);
    let mut workload = workload(vec![(files, readers.clone())]);
    readers.start_node = Some(egeria_machine::NodeId(1));
    workload.threads.push(readers);
    let off = run(&workload, System::Off);
    let mut options = options(System::All);
    options.planner.stages.limits = false;
    options.planner.stages.delegation = false;
    let all = egeria_sim::run(&optane(), &workload, &options).unwrap();
    let read: Vec<f64> = all
        .windows
        .last()
        .unwrap()
        .nodes
        .iter()
        .map(|node| node.read_bytes_s)
        .collect();
    assert!(read.iter().all(|bytes_s| *bytes_s > 1e9), "{read:?}");
    assert!(all.operations_s > off.operations_s * 1.5);
}

/// Threads that all use one node's memory, on it: so many that it collapses.
fn crowd(threads: u32, read_share: f64) -> String {
    format!(
        "name = \"crowd\"\nseconds = 20.0\nwarm_up_seconds = 8.0\n\
         [[files]]\nname = \"data\"\ncount = {threads}\nbytes = 1_000_000_000\nnode = 0\n\
         [[threads]]\nname = \"fio\"\ncount = {threads}\nfiles = \"data\"\nstart_node = 0\n\
         [[threads.phases]]\nread_share = {read_share}\nrequest_bytes = 4096\nthink_ns = 0.0\n"
    )
}

/// Persistent memory that collapsed under too many threads gives less than 80 % of its peak, and is contended all the
/// more: the rule `curve` sees that, the paper's `peak` does not.
#[test]
fn collapsed_memory_is_contended_by_its_curve() {
    let machine = Machine::profile("odin-8s").unwrap();
    for (threads, read_share) in [(24, 0.5), (28, 0.5), (24, 0.2), (28, 0.2)] {
        let workload = Workload::from_toml(&crowd(threads, read_share), "crowd").unwrap();
        let operations_s = |options: &Options| {
            let outcome = egeria_sim::run(&machine, &workload, options).unwrap();
            outcome.operations_s
        };
        let off = operations_s(&Options::of(System::Off));
        let gain = |options: &Options| operations_s(options) / off;
        let curve = gain(&Options::of(System::Full));
        assert!(
            curve > 1.1,
            "{threads} threads, {read_share} reads: {curve}"
        );
        let peak = gain(&Options::published(System::Full));
        assert!(peak < 1.01, "{threads} threads: {peak}");
    }
}

#[test]
fn the_policy_of_the_how_to_brings_writers_to_their_files() {
    let load = include_str!("../../../../docs/how-to/remote-writers.toml");
    let load = Workload::from_toml(load, "remote-writers.toml").unwrap();
    let run = |policy: Make, system: System| {
        let options = Options {
            policy,
            allocation: Allocation::Node(0),
            ..Options::of(system)
        };
        egeria_sim::run(&optane(), &load, &options).unwrap()
    };
    let off = run(System::Off.make(), System::Off);
    let own = run(follow_writes::make, System::Off);
    assert_eq!((own.moves, own.local_share), (4, 1.0));
    assert!(own.operations_s > 1.1 * off.operations_s);
    let why = &own.windows.iter().find(|window| !window.moves.is_empty());
    let why = &why.unwrap().moves[0].why;
    assert!(why.starts_with("it wrote "), "{why}");
    let page = include_str!("../../../../docs/how-to/write-a-policy.md");
    let code = include_str!("../../../../docs/how-to/follow_writes.rs");
    assert!(page.contains(code), "the page shows another policy");
}

#[test]
fn a_policy_that_decides_nothing_says_why() {
    let writers = |seconds: f64| Workload {
        seconds,
        warm_up_seconds: 0.0,
        ..scattered(
            4,
            Phase {
                read_share: 0.0,
                ..reading(2000.0)
            },
        )
    };
    let why = |seconds: f64, system: System| run(&writers(seconds), system).nothing_because;
    assert_eq!(
        why(5.0, System::Off),
        ["no stage of the planner is on, and the policy gives no reason of its own"]
    );
    let none_reads =
        "no thread moves: none reads 200 MB/s more from one node than from every other";
    assert_eq!(why(5.0, System::Rl), [none_reads]);
    assert!(why(5.0, System::Asymsched)[0].contains("[[links]]"));
    assert!(why(0.5, System::Rl)[0].starts_with("the run is no longer than a window"));
    assert!(why(5.0, System::Pats).is_empty());
    let mut bound = scattered(4, reading(2000.0));
    bound.threads[0].pinned = true;
    let why = run(&bound, System::Rl).nothing_because;
    assert_eq!(
        why,
        ["2 threads stay, the first because its owner bound it to CPUs"]
    );
}
