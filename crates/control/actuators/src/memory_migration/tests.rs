//! Orders for this process, with made facts.

use super::*;
use egeria_harness::testing::has_numa_maps;
use egeria_pages::accesses::Region;
use egeria_policy::asymsched::MemoryCost;

fn at(node: u16, threads: u32) -> NodeAccesses {
    NodeAccesses {
        node: NodeId(node),
        threads,
        pinned: false,
        accesses_s: Vec::new(),
        resident_bytes: 0,
    }
}

#[test]
fn only_pages_on_nodes_without_threads_follow() {
    let accesses = ProcessAccesses {
        nodes: vec![at(0, 0), at(1, 2), at(2, 3)],
        ..ProcessAccesses::default()
    };
    let pairs = [(0, 2), (1, 2), (3, 1)].map(|(from, to)| (NodeId(from), NodeId(to)));
    let left = left_behind(&pairs, &accesses);
    assert_eq!(
        left,
        [(NodeId(0), NodeId(2)), (NodeId(3), NodeId(1))].into()
    );
    let hot = vec![(4096, NodeId(0)), (8192, NodeId(1)), (12288, NodeId(3))];
    let wanted = targets(hot, &left);
    assert_eq!(wanted, [(4096, NodeId(2)), (12288, NodeId(1))].into());
}

#[test]
fn memory_of_threads_that_stay_comes_to_where_they_ran_most() {
    let with = |node, threads, accesses_s: f64, resident_bytes| NodeAccesses {
        accesses_s: vec![accesses_s; 4],
        resident_bytes,
        ..at(node, threads)
    };
    let (here, remote) = (with(1, 2, 5.0, 9), with(0, 0, 0.0, 4096));
    let accesses = ProcessAccesses {
        nodes: vec![remote, here, with(2, 1, 3.0, 0), with(3, 0, 0.0, 0)],
        ..ProcessAccesses::default()
    };
    assert_eq!(
        to_threads(&accesses),
        [(NodeId(0), NodeId(1))].into(),
        "what its other threads have beside them stays"
    );
    assert!(to_threads(&ProcessAccesses::default()).is_empty());
}

struct None;

impl HotPages for None {
    fn hot_pages(&mut self, _: ProcessKey, _: &[NodeId], _: usize) -> Vec<(usize, NodeId)> {
        Vec::new()
    }

    fn regions(&self, _: ProcessKey) -> Vec<Region> {
        Vec::new()
    }
}

struct Everybody;

impl Membership for Everybody {
    fn holds(&self, thread: ThreadKey) -> bool {
        egeria_proc::task::is_still(thread)
    }
}

fn actuator(times: &MigrationTimes) -> MemoryMigration {
    actuator_after(times, Departures::default())
}

/// Threads went from one node to another before.
fn after_a_move(
    times: &MigrationTimes,
    process: ProcessKey,
    from: u16,
    to: u16,
) -> MemoryMigration {
    let departures = Departures::default();
    departures.add(process, NodeId(from), NodeId(to));
    actuator_after(times, departures)
}

fn actuator_after(times: &MigrationTimes, departures: Departures) -> MemoryMigration {
    let machine = Machine::detect().unwrap();
    let members = Arc::new(Everybody);
    MemoryMigration::new(
        &machine,
        members,
        Box::new(None),
        times.clone(),
        departures,
        0.05,
    )
}

fn full(process: ProcessKey) -> Action {
    Action::MigrateMemory(MemoryStep {
        process,
        action: MemoryAction::Full {
            old_share: 1.0,
            copies: vec![(NodeId(0), NodeId(0), 1)],
            cost_ns: 1,
            cost: MemoryCost::default(),
            chunk_pages: 30_000,
        },
    })
}

fn facts(process: ProcessKey, running_ns: u64) -> Facts {
    let machine = Machine::detect().unwrap();
    let mut facts = Facts::of(egeria_facts::Window::empty(&machine, 0, 0, 1_000_000_000));
    facts.accesses.processes.push(ProcessAccesses {
        process,
        running_ns,
        ..ProcessAccesses::default()
    });
    facts
}

#[test]
fn time_is_charged_and_the_budget_ends_the_work() {
    if !has_numa_maps() {
        return;
    }
    let process = egeria_proc::task::process(std::process::id()).unwrap();
    let times = MigrationTimes::default();
    let mut actuator = actuator(&times);
    let hour = facts(process, 3_600_000_000_000);
    assert_eq!(actuator.apply(&full(process), &hour), ActionOutcome::Done);
    assert!(times.of(process) > 0);
    assert_eq!(times.cost(), Option::None, "nothing was elsewhere");
    times.migrated(process, 0, Duration::from_secs(180));
    let spent = actuator.apply(&full(process), &hour);
    assert_eq!(
        spent,
        refused("its budget was used up before all had followed")
    );
}

#[test]
fn memory_that_has_mostly_followed_follows_on_without_looks() {
    let process = egeria_proc::task::process(std::process::id()).unwrap();
    let times = MigrationTimes::default();
    let mut actuator = after_a_move(&times, process, 0, 1);
    let mut facts = facts(process, 3_600_000_000_000);
    let left = NodeAccesses {
        resident_bytes: 1 << 30,
        ..at(0, 0)
    };
    facts.accesses.processes[0].nodes = vec![left, at(1, 2)];
    for (action, looks) in [
        (MemoryAction::Dynamic, true),
        (MemoryAction::Settled { old_share: 0.5 }, false),
    ] {
        let step = Action::MigrateMemory(MemoryStep { process, action });
        assert_eq!(actuator.apply(&step, &facts), ActionOutcome::Done);
        for _ in 0..2 {
            actuator.end_window(&facts);
            assert_eq!(times.take_wanted(process), looks);
            assert_eq!(actuator.following, [(process, !looks)]);
        }
    }
}

#[test]
fn a_process_that_is_gone_or_another_has_vanished() {
    let process = ProcessKey {
        process_id: std::process::id(),
        start_ticks: 1,
    };
    let times = MigrationTimes::default();
    let mut actuator = actuator(&times);
    let facts = facts(process, 1_000_000_000);
    assert_eq!(
        actuator.apply(&full(process), &facts),
        ActionOutcome::Vanished
    );
    assert_eq!(times.of(process), 0);
}

#[test]
fn memory_left_without_known_use_wants_another_look() {
    let process = egeria_proc::task::process(std::process::id()).unwrap();
    for (left_bytes, is_wanted) in [(1 << 30, true), (1 << 20, false)] {
        let times = MigrationTimes::default();
        let mut actuator = after_a_move(&times, process, 1, 0);
        let mut facts = facts(process, 3_600_000_000_000);
        let with = |node, threads, resident_bytes| NodeAccesses {
            resident_bytes,
            ..at(node, threads)
        };
        facts.accesses.processes[0].nodes = vec![with(0, 1, 1 << 30), with(1, 0, left_bytes)];
        let follow = Action::MigrateMemory(MemoryStep {
            process,
            action: MemoryAction::Dynamic,
        });
        assert_eq!(actuator.apply(&follow, &facts), ActionOutcome::Done);
        actuator.end_window(&facts);
        assert_eq!(times.take_wanted(process), is_wanted, "{left_bytes}");
        assert!(!times.take_wanted(process), "it counts once");
    }
}

#[test]
fn memory_for_a_node_that_is_not_there_is_refused_in_a_line() {
    if !has_numa_maps() {
        return;
    }
    let process = egeria_proc::task::process(std::process::id()).unwrap();
    let node = Machine::detect().unwrap().nodes[0].id;
    let mut actuator = actuator(&MigrationTimes::default());
    let mut facts = facts(process, 3_600_000_000_000);
    let gather = Action::MigrateMemory(MemoryStep {
        process,
        action: MemoryAction::Gather {
            remote_share: 1.0,
            remote_then: 0.0,
            tier: Option::None,
            copies: vec![(node, NodeId(900), 1 << 20)],
            cost_ns: 1,
            cost: MemoryCost::default(),
            others_ns: 0,
            advance_ns: 0,
            wait_ns: 0,
        },
    });
    let ActionOutcome::Refused { reason } = actuator.apply(&gather, &facts) else {
        panic!("node 900 takes memory");
    };
    assert!(!reason.is_empty() && !reason.contains('\n'), "{reason}");
    actuator.end_window(&facts);
    assert!(actuator.gatherings.is_empty(), "it is not tried again");
    // Without facts of it the process is idle: the order waits.
    facts.accesses.processes.clear();
    let waits = actuator.apply(&gather, &facts);
    assert!(matches!(waits, ActionOutcome::GoesOn { .. }), "{waits:?}");
    assert_eq!(actuator.gatherings.len(), 1);
}

#[test]
fn memory_on_nodes_without_threads_is_ordered_once() {
    let process = egeria_proc::task::process(std::process::id()).unwrap();
    let mut actuator = actuator(&MigrationTimes::default());
    // No time is allowed: nothing moves here.
    let mut facts = facts(process, 0);
    let with = |node, threads, resident_bytes| NodeAccesses {
        resident_bytes,
        ..at(node, threads)
    };
    facts.accesses.processes[0].nodes = vec![with(0, 1, 1 << 30), with(1, 0, 1 << 30)];
    let follow = Action::MigrateMemory(MemoryStep {
        process,
        action: MemoryAction::Dynamic,
    });
    for _ in 0..3 {
        assert_eq!(actuator.apply(&follow, &facts), ActionOutcome::Done);
        actuator.end_window(&facts);
        let gathering = &actuator.gatherings[&process];
        assert_eq!(gathering.left_bytes(), 1 << 30);
        let pairs: Vec<_> = gathering.pairs().collect();
        assert_eq!(pairs, [(NodeId(1), NodeId(0))]);
    }
    let full = actuator.apply(&full(process), &facts);
    assert!(
        actuator.gatherings.is_empty(),
        "another order replaces it: {full:?}"
    );
}
