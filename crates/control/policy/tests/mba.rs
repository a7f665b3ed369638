//! Programs that use memory without asking for admission: bounded where the memory's curve says so, and no longer than
//! that.

use egeria_facts::{
    Facts, Measured, MediumFacts, MemoryTraffic, NodeAccesses, ProcessAccesses, ProcessKey,
    TrafficOrigin, Window,
};
use egeria_machine::{Machine, MemoryKind, NodeId};
use egeria_policy::mba::{MbaPlan, UnboundBecause};
use egeria_policy::planner::{Decision, Planner, Settings, System};
use egeria_policy::{
    Action, ActionKind, ActionOutcome, ActionRecord, ActionResult, Basis, Expectation,
};
use proptest::prelude::*;

use crate::common::SECOND_NS;

/// 80 GB/s for 8 threads, 50 GB/s for 16.
fn machine() -> Machine {
    let mut machine = Machine::profile("xeon-2s-dram").expect("a profile");
    for node in &mut machine.nodes {
        node.hardware.memories.truncate(1);
        let memory = &mut node.hardware.memories[0];
        (memory.read_bytes_s, memory.read_stream_bytes_s) = (100e9, 10e9);
        memory.read_curve = vec![(4, 1.0), (8, 0.97), (16, 0.5)];
        memory.write_curve = Vec::new();
    }
    machine
}

fn key(process_id: u32) -> ProcessKey {
    ProcessKey {
        process_id,
        start_ticks: 7,
    }
}

/// A process with this number of threads on node 0, all of whose accesses go to node 0.
fn process(process_id: u32, threads: u32) -> ProcessAccesses {
    let node = NodeAccesses {
        node: NodeId(0),
        threads,
        pinned: true,
        accesses_s: vec![1e8 * f64::from(threads), 0.0],
        resident_bytes: 1 << 30,
    };
    ProcessAccesses {
        process: key(process_id),
        nodes: vec![node],
        ..ProcessAccesses::default()
    }
}

/// What the memory of node 0 moves, bytes/s, under these processes.
fn facts(processes: &[(u32, u32)], bytes_s: f64) -> Facts {
    let mut facts = Facts::of(Window::empty(&machine(), 0, 0, SECOND_NS));
    facts.accesses.processes = processes
        .iter()
        .map(|(id, threads)| process(*id, *threads))
        .collect();
    facts.memories = vec![MemoryTraffic {
        node: NodeId(0),
        kind: MemoryKind::Dram,
        read_bytes_s: bytes_s,
        written_bytes_s: 0.0,
        origin: TrafficOrigin::MemoryController,
    }];
    facts
}

fn settings() -> Settings {
    let mut settings = System::All.settings();
    settings.stages.mba = true;
    settings
}

fn planner() -> Planner {
    Planner::new(&machine(), settings())
}

fn bounds(decision: &Decision) -> (Vec<u32>, Vec<(u16, f64)>) {
    match &decision.mba {
        MbaPlan::On {
            processes, shares, ..
        } => (
            processes.iter().map(|key| key.process_id).collect(),
            shares
                .iter()
                .map(|each| (each.node.0, each.share))
                .collect(),
        ),
        MbaPlan::Off { because } => panic!("{because}"),
    }
}

fn why_off(decision: &Decision) -> UnboundBecause {
    match &decision.mba {
        MbaPlan::Off { because } => *because,
        on @ MbaPlan::On { .. } => panic!("{on}"),
    }
}

#[test]
fn a_crowd_beyond_the_curve_gets_the_share_that_it_bears() {
    let decision = planner().decide(&machine(), &facts(&[(9, 12), (4, 4)], 50e9));
    assert_eq!(bounds(&decision), (vec![4, 9], vec![(0, 0.475)]));
    let said = decision.mba.to_string();
    assert!(
        said.contains("16 threads are at the memory of node 0, which bears 8"),
        "{said}"
    );
}

#[test]
fn few_threads_little_traffic_or_a_flat_curve_bound_nothing() {
    let quiet = UnboundBecause::Quiet;
    for (threads, bytes_s) in [(8, 80e9), (16, 20e9)] {
        let decision = planner().decide(&machine(), &facts(&[(4, threads)], bytes_s));
        assert_eq!(why_off(&decision), quiet, "{threads} {bytes_s}");
    }
    let mut flat = machine();
    for node in &mut flat.nodes {
        node.hardware.memories[0].read_curve = vec![(1, 1.0), (16, 1.0)];
    }
    let decision = Planner::new(&flat, settings()).decide(&flat, &facts(&[(4, 64)], 100e9));
    assert_eq!(why_off(&decision), UnboundBecause::NoCurve);
}

#[test]
fn traffic_that_hardware_does_not_count_bounds_nothing() {
    let mut uncounted = facts(&[(4, 16)], 50e9);
    uncounted.memories.clear();
    let decision = planner().decide(&machine(), &uncounted);
    assert_eq!(why_off(&decision), UnboundBecause::NotCounted);
}

#[test]
fn what_is_not_allowed_or_not_possible_is_said() {
    let crowd = facts(&[(4, 16)], 50e9);
    let mut all = Planner::new(&machine(), System::All.settings());
    let decision = all.decide(&machine(), &crowd);
    let because = why_off(&decision);
    assert!(
        matches!(because, UnboundBecause::NotAllowed { .. }),
        "{because}"
    );
    assert!(
        because.to_string().ends_with("--set stages.mba=on"),
        "{because}"
    );
    let others: Vec<ActionKind> = ActionKind::ALL
        .into_iter()
        .filter(|kind| *kind != ActionKind::Mba)
        .collect();
    let decision = planner().with_actuators(&others).decide(&machine(), &crowd);
    let because = why_off(&decision);
    assert!(
        matches!(because, UnboundBecause::NoActuator { .. }),
        "{because}"
    );
    assert_eq!(decision.mba.unmet(), Some(because));
}

/// Those that ask are bounded by their limit, which leaves the rest of the memory to others.
#[test]
fn threads_that_ask_are_bounded_before_those_that_do_not() {
    let mut asking = facts(&[(4, 16)], 50e9);
    asking.media = vec![MediumFacts {
        node: NodeId(0),
        measured: Measured {
            demand: 12,
            ..Measured::default()
        },
        free_bytes: None,
        striped_files: None,
    }];
    let mut unlimited = settings();
    unlimited.stages.limits = false;
    let decision = Planner::new(&machine(), unlimited).decide(&machine(), &asking);
    assert_eq!(
        why_off(&decision),
        UnboundBecause::OthersFirst { node: NodeId(0) }
    );
    asking.media[0].measured.demand = 6;
    let decision = planner().decide(&machine(), &asking);
    assert_eq!(bounds(&decision), (vec![4], vec![(0, 0.11875)]));
}

#[test]
fn small_programs_are_left_alone() {
    let decision = planner().decide(&machine(), &facts(&[(4, 39), (5, 1)], 50e9));
    let (processes, shares) = bounds(&decision);
    assert_eq!(processes, [4]);
    assert!((shares[0].1 - 0.95 * 7.0 / 39.0).abs() < 1e-9, "{shares:?}");
}

#[test]
fn bounds_stay_while_little_changes_and_go_after_a_rest() {
    let mut planner = planner();
    let first = planner.decide(&machine(), &facts(&[(4, 16)], 50e9));
    // The memory moves what it can to as many threads as it bears.
    for threads in [16, 15, 17] {
        let next = planner.decide(&machine(), &facts(&[(4, threads)], 80e9));
        assert_eq!(next.mba, first.mba);
        assert!(
            next.actions(&first)
                .iter()
                .all(|action| action.kind() != ActionKind::Mba)
        );
    }
    let rest = settings().mba.rest_windows;
    for window in 1..rest {
        let next = planner.decide(&machine(), &facts(&[(4, 4)], 80e9));
        assert_eq!(next.mba, first.mba, "{window}");
    }
    let last = planner.decide(&machine(), &facts(&[(4, 4)], 80e9));
    assert_eq!(why_off(&last), UnboundBecause::Quiet);
    let actions = last.actions(&first);
    assert!(
        actions
            .iter()
            .any(|action| action.kind() == ActionKind::Mba)
    );
}

#[test]
fn bounds_of_programs_that_have_ended_go_at_once() {
    let mut planner = planner();
    planner.decide(&machine(), &facts(&[(4, 16)], 50e9));
    let decision = planner.decide(&machine(), &facts(&[], 1e9));
    assert_eq!(why_off(&decision), UnboundBecause::Quiet);
}

#[test]
fn bounds_that_bring_too_little_end_and_are_not_repeated_soon() {
    let (machine, crowd) = (machine(), facts(&[(4, 16)], 50e9));
    let mut planner = planner();
    let decision = planner.decide(&machine, &crowd);
    let action = Action::SetMba {
        plan: decision.mba.clone(),
    };
    let expected = Expectation::of(
        &action,
        &Basis {
            machine: &machine,
            facts: &crowd,
            decision: &decision,
            previous: &Decision::none(0),
            settings: &settings(),
        },
    );
    let said = expected.expect("bounds begin").to_string();
    assert_eq!(
        said,
        "80.0 GB/s through the node's memory instead of 50.0 GB/s"
    );
    let record = ActionRecord {
        action,
        expected,
        outcome: ActionOutcome::Done,
    };
    let result = ActionResult::of(&record, &machine, &facts(&[(4, 16)], 80e9));
    assert_eq!((result.measured, result.missed), (Some(80e9), false));
    let result = ActionResult::of(&record, &machine, &crowd);
    assert!(result.missed);
    planner.learn(&[result]);
    for _ in 0..settings().feedback.rest_windows {
        let decision = planner.decide(&machine, &crowd);
        assert_eq!(why_off(&decision), UnboundBecause::BroughtTooLittle);
    }
    bounds(&planner.decide(&machine, &crowd));
}

proptest! {
    /// Whatever is seen, shares are shares, only seen processes are bounded, and the order of processes does not matter.
    #[test]
    fn bounds_are_shares_of_processes_that_are_seen(
        windows in prop::collection::vec(
            (prop::collection::btree_map(1u32..20, 0u32..64, 0..6), -1e9f64..2e11),
            1..12,
        ),
    ) {
        let (mut one, mut other) = (planner(), planner());
        for (processes, bytes_s) in windows {
            let mut processes: Vec<(u32, u32)> = processes.into_iter().collect();
            let decision = one.decide(&machine(), &facts(&processes, bytes_s));
            processes.reverse();
            prop_assert_eq!(&decision.mba, &other.decide(&machine(), &facts(&processes, bytes_s)).mba);
            if let MbaPlan::On { processes: bounded, shares, .. } = &decision.mba {
                prop_assert!(!bounded.is_empty() && !shares.is_empty());
                prop_assert!(bounded.is_sorted() && shares.iter().all(|each| (0.05..1.0).contains(&each.share) && each.bytes_s > 0.0));
                let is_seen = |key: &ProcessKey| processes.iter().any(|(id, _)| *id == key.process_id);
                prop_assert!(bounded.iter().all(is_seen));
            }
        }
    }
}
