//! AsymSched's rules one by one, in numbers that can be done in the head.

use crate::clusters;

use clusters::{GB, linked, obeyed, process, uneven, window};
use egeria_facts::{AccessError, AccessWindow, MigrationCost, NodeAccesses, ProcessAccesses};
use egeria_machine::{CpuId, Machine, NodeId};
use egeria_policy::asymsched::{
    Decision, MemoryAction, MemoryStep, PlacementPlan, Settings, plan, plan_after,
};

fn planned(machine: &Machine, processes: Vec<ProcessAccesses>) -> PlacementPlan {
    plan(machine, &window(processes), &Settings::default())
}

fn nodes(plan: &PlacementPlan) -> Vec<Vec<u16>> {
    let of = |cluster: &egeria_policy::asymsched::Cluster| {
        cluster.nodes.iter().map(|node| node.0).collect()
    };
    plan.clusters.iter().map(of).collect()
}

fn ways(plan: &PlacementPlan) -> Vec<(u16, u16)> {
    plan.moves
        .iter()
        .map(|step| (step.from.0, step.to.0))
        .collect()
}

/// Alg. 1, lines 1-3.
#[test]
fn threads_with_a_common_controller_are_one_cluster() {
    let machine = uneven();
    let mut facts = process(&machine, 1, &[0, 1, 3], 0.0);
    let rates = |facts: &mut ProcessAccesses, node: usize, to: &[(usize, f64)]| {
        facts.nodes[node].accesses_s = vec![0.0; 4];
        to.iter()
            .for_each(|(memory, rate)| facts.nodes[node].accesses_s[*memory] = *rate);
    };
    // Both go to the memory of node 2, where no thread is.
    rates(&mut facts, 0, &[(0, 5e6), (2, 2e6)]);
    rates(&mut facts, 2, &[(2, 3e6)]);
    let plan = planned(&machine, vec![facts.clone()]);
    assert_eq!(nodes(&plan), [vec![0, 3], vec![1]]);
    assert_eq!(
        plan.clusters[0].remote_accesses_s, 5e6,
        "its own node's do not count"
    );
    assert_eq!(plan.clusters[0].weight, (1.0 + 5e6f64).ln());
    assert_eq!(plan.clusters[1].weight, 0.0);
    // Threads on a node access its own controller: who comes there shares with them.
    rates(&mut facts, 1, &[(3, 1e6)]);
    assert_eq!(
        nodes(&planned(&machine, vec![facts.clone()])),
        [vec![0, 1, 3]]
    );
    // Not with a volume that is not high.
    rates(&mut facts, 1, &[(3, 0.9e6)]);
    assert_eq!(
        nodes(&planned(&machine, vec![facts])),
        [vec![0, 3], vec![1]]
    );
}

#[test]
fn processes_are_never_one_cluster() {
    let machine = uneven();
    let two = vec![
        process(&machine, 1, &[0, 1], 1e8),
        process(&machine, 2, &[0, 1], 1e8),
    ];
    assert_eq!(nodes(&planned(&machine, two)), [[0, 1], [0, 1]]);
}

/// Data goes both ways between every two nodes; clusters on the same lanes share them.
#[test]
fn bandwidth_is_the_sum_of_fair_shares_over_all_pairs() {
    let machine = linked(3, &[(0, 1, 4e9), (1, 0, 2e9), (1, 2, 3e9), (2, 1, 3e9)]);
    let one = planned(&machine, vec![process(&machine, 1, &[0, 1], 1e8)]);
    assert_eq!(one.clusters[0].bandwidth_bytes_s, 6e9);
    // 0 to 2 goes over 1: lanes 0-1 and 1-2 carry two flows each, as do 2-1 and 1-0.
    let three = planned(&machine, vec![process(&machine, 1, &[0, 1, 2], 1e8)]);
    // There: 1.5 to 2 by both, 2.5 to 1. Back: 1 to 0 by both, 2 from 2 to 1.
    assert_eq!(
        three.clusters[0].bandwidth_bytes_s,
        1.5e9 + 1.5e9 + 2.5e9 + 1e9 + 1e9 + 2e9
    );
    let two = vec![
        process(&machine, 1, &[0, 1], 1e8),
        process(&machine, 2, &[0, 1], 1e8),
    ];
    let two = planned(&machine, two);
    let each: Vec<f64> = two
        .clusters
        .iter()
        .map(|cluster| cluster.bandwidth_bytes_s)
        .collect();
    assert_eq!(each, [3e9, 3e9]);
}

#[test]
fn the_busier_cluster_gets_the_wider_link() {
    let machine = uneven();
    let plan = planned(
        &machine,
        vec![
            process(&machine, 1, &[0, 1], 1e8),
            process(&machine, 2, &[2, 3], 2e6),
        ],
    );
    assert_eq!(ways(&plan), [(0, 2), (1, 3), (2, 0), (3, 1)]);
    assert_eq!(plan.clusters[0].expected_bytes_s, 20e9);
    assert_eq!(plan.clusters[1].expected_bytes_s, 2e9);
    let Decision::Move {
        bytes,
        now_wbw,
        chosen_wbw,
        best_wbw,
        ..
    } = plan.decision
    else {
        panic!("{}", plan.decision)
    };
    assert_eq!(bytes, 4 * GB);
    assert!(now_wbw < chosen_wbw && chosen_wbw == best_wbw);
}

/// Step 3: of placements with 90 % of the best the one that moves the least.
#[test]
fn what_is_good_enough_and_moves_less_is_taken() {
    let lanes = |good: f64| {
        let pairs = [(0, 1, 1e9), (1, 2, good), (2, 3, 10e9), (3, 0, 1e8)];
        let both = pairs
            .iter()
            .flat_map(|&(a, b, width)| [(a, b, width), (b, a, width)]);
        linked(4, &both.collect::<Vec<_>>())
    };
    let load = |machine: &Machine| vec![process(machine, 1, &[0, 1], 1e8)];
    let machine = lanes(9.1e9);
    assert_eq!(
        ways(&planned(&machine, load(&machine))),
        [(0, 2)],
        "91 %: one node less"
    );
    let machine = lanes(8.9e9);
    assert_eq!(
        ways(&planned(&machine, load(&machine))),
        [(0, 2), (1, 3)],
        "89 %: not enough"
    );
    let strict = Settings {
        filter: 1.0,
        ..Settings::default()
    };
    let machine = lanes(9.1e9);
    let found = plan(&machine, &window(load(&machine)), &strict);
    assert_eq!(ways(&found), [(0, 2), (1, 3)]);
}

#[test]
fn who_needs_no_link_gives_way() {
    let machine = uneven();
    let mut quiet = process(&machine, 2, &[2], 1e8);
    quiet.nodes[0].resident_bytes = GB / 2;
    let plan = planned(&machine, vec![process(&machine, 1, &[0, 1], 1e8), quiet]);
    assert_eq!(ways(&plan), [(0, 2), (1, 3), (2, 0)]);
    assert!(matches!(plan.decision, Decision::Move { bytes, .. } if bytes == 2 * GB + GB / 2));
}

#[test]
fn threads_that_must_stay_keep_their_node() {
    let machine = uneven();
    let mut bound = process(&machine, 2, &[2], 1e8);
    bound.nodes[0].pinned = true;
    let plan = planned(&machine, vec![process(&machine, 1, &[0, 1], 1e8), bound]);
    assert!(
        matches!(plan.decision, Decision::Stay { .. }),
        "{}",
        plan.decision
    );
    let mut half = process(&machine, 1, &[0, 3], 1e8);
    half.nodes[1].pinned = true;
    assert_eq!(ways(&planned(&machine, vec![half])), [(0, 2)]);
}

#[test]
fn nodes_with_other_cores_or_none_are_not_exchanged() {
    for cpus in [vec![], vec![CpuId(40)]] {
        let mut machine = uneven();
        machine.nodes[2].cpus = cpus;
        let plan = planned(&machine, vec![process(&machine, 1, &[0, 1], 1e8)]);
        assert!(
            matches!(plan.decision, Decision::Stay { .. }),
            "{}",
            plan.decision
        );
    }
}

#[test]
fn the_plan_says_why_nothing_is_placed() {
    let mut machine = uneven();
    let spanning = vec![process(&machine, 1, &[0, 1], 1e8)];
    let one_node_each = (0..4)
        .map(|node| process(&machine, node as u32, &[node], 1e8))
        .collect();
    let alone = planned(&machine, one_node_each);
    assert_eq!(alone.decision, Decision::NothingSpans);
    assert_eq!(
        planned(&machine, Vec::new()).decision,
        Decision::NothingSpans
    );
    machine.interconnect.links[0].to = NodeId(9);
    let broken = planned(&machine, spanning.clone());
    assert!(
        broken.decision.to_string().contains("there is no node 9"),
        "{}",
        broken.decision
    );
    machine.interconnect.links.clear();
    let blind = planned(&machine, spanning);
    assert_eq!(blind.decision, Decision::NoLinks);
    assert!(blind.decision.to_string().contains("add [[links]]"));
    machine.nodes.truncate(1);
    let small = planned(&machine, Vec::new());
    assert_eq!(small.decision, Decision::OneNode);
    assert!(!small.decision.to_string().contains("[[links]]"));
    for plan in [alone, broken, blind] {
        assert_eq!((plan.moves.len(), plan.memory.len()), (0, 0));
    }
}

/// §5's comparison: memory by access alone.
#[test]
fn with_threads_off_only_memory_follows() {
    let machine = uneven();
    let settings = Settings {
        threads: false,
        ..Settings::default()
    };
    let facts = vec![
        process(&machine, 1, &[0, 1], 1e8),
        process(&machine, 2, &[2], 1e8),
    ];
    let plan = plan(&machine, &window(facts), &settings);
    assert_eq!(
        (plan.decision, plan.moves),
        (Decision::ThreadsOff, Vec::new())
    );
    let own: Vec<u32> = plan
        .memory
        .iter()
        .map(|step| step.process.process_id)
        .collect();
    assert_eq!(own, [1], "the other one has no remote accesses");
}

/// Two processes of 2 GB each that should change places.
fn crossed(
    machine: &Machine,
    running_ns: [u64; 2],
    migrating_ns: [u64; 2],
) -> Vec<ProcessAccesses> {
    let mut both = vec![
        process(machine, 1, &[0, 1], 1e8),
        process(machine, 2, &[2, 3], 2e6),
    ];
    for (facts, (running_ns, migrating_ns)) in both
        .iter_mut()
        .zip(running_ns.into_iter().zip(migrating_ns))
    {
        (facts.running_ns, facts.migrating_ns) = (running_ns, migrating_ns);
    }
    both
}

/// Step 4: 2 GB take 0.6 s, which is 5 % of 12 s.
#[test]
fn one_process_over_its_budget_stops_the_whole_placement() {
    let machine = uneven();
    let decide =
        |running_ns, migrating_ns| planned(&machine, crossed(&machine, running_ns, migrating_ns));
    let enough = decide([12 * GB, 12 * GB], [0, 0]);
    assert_eq!(ways(&enough).len(), 4);
    for (running, spent, process) in [
        ([12 * GB - 1000, 12 * GB], [0, 0], 1),
        ([12 * GB, 12 * GB - 1000], [0, 0], 2),
        ([12 * GB, 12 * GB], [0, 1000], 2),
    ] {
        let refused = decide(running, spent);
        assert_eq!(refused.moves, []);
        let Decision::OverBudget {
            process: who,
            spent_ns,
            cost_ns,
            allowed_ns,
            ..
        } = refused.decision
        else {
            panic!("{}", refused.decision)
        };
        assert_eq!((who.process_id, cost_ns), (process, 600_000_000));
        assert!(spent_ns + cost_ns > allowed_ns);
        assert_eq!(refused.following, []);
    }
    let cheap = Settings {
        cost_s_per_gb: 0.15,
        ..Settings::default()
    };
    let facts = crossed(&machine, [6 * GB, 6 * GB], [0, 0]);
    assert_eq!(ways(&plan(&machine, &window(facts), &cheap)).len(), 4);
}

/// Step 4, with the cost of this machine.
#[test]
fn a_measured_cost_replaces_the_setting_and_is_said() {
    let machine = uneven();
    let decide = |running_ns: u64, s_per_gb: f64| {
        let facts = crossed(&machine, [running_ns; 2], [0, 0]);
        let mut window = window(facts);
        window.migration_cost = Some(MigrationCost {
            s_per_gb,
            bytes: 1 << 30,
            migrations: 2,
        });
        plan(&machine, &window, &Settings::default()).decision
    };
    // 2 GB at 0.75 s/GB are 5 % of 30 s.
    let moved = decide(30 * GB, 0.75);
    assert!(matches!(moved, Decision::Move { .. }), "{moved}");
    let refused = decide(30 * GB - 1000, 0.75);
    assert!(matches!(refused, Decision::OverBudget { .. }), "{refused}");
    for decision in [moved, refused] {
        let text = decision.to_string();
        assert!(
            text.contains("(0.75 s/GB, measured in 2 migrations)"),
            "{text}"
        );
    }
    // What cannot have been measured does not count.
    for no_cost in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let text = decide(12 * GB, no_cost).to_string();
        let is_default = text.contains("(0.30 s/GB, the setting, as nothing was migrated yet)");
        assert!(is_default, "{text}");
    }
}

/// The window `ms` later, when threads have moved from nodes 0 and 1 to 2 and 3 and this part of their accesses
/// still goes to where they were.
fn afterwards(machine: &Machine, ms: u64, old_share: f64) -> (AccessWindow, PlacementPlan) {
    let first = window(vec![process(machine, 1, &[0, 1], 1e8)]);
    let plan = plan(machine, &first, &Settings::default());
    assert_eq!(ways(&plan), [(0, 2), (1, 3)]);
    let mut next = obeyed(machine, &first, &plan);
    next.end_ns = first.end_ns + ms * 1_000_000;
    let facts = &mut next.processes[0];
    for each in &mut facts.nodes {
        each.accesses_s = vec![old_share * 1e8, 0.0, (1.0 - old_share) * 1e8, 0.0];
        each.resident_bytes = 0;
    }
    for node in 0..2 {
        facts.nodes.push(NodeAccesses {
            node: NodeId(node),
            threads: 0,
            pinned: false,
            accesses_s: Vec::new(),
            resident_bytes: (3 + u64::from(node)) * GB,
        });
    }
    (next, plan)
}

fn action(
    machine: &Machine,
    (window, first): &(AccessWindow, PlacementPlan),
    settings: &Settings,
) -> Option<MemoryAction> {
    let steps: Vec<MemoryStep> = plan_after(machine, window, settings, first).memory;
    assert!(steps.len() < 2);
    steps.into_iter().next().map(|step| step.action)
}

/// Migration, Step 2: after two seconds, if over 90 % of the accesses go to nodes left.
#[test]
fn all_memory_follows_after_two_seconds_of_remote_accesses() {
    let machine = uneven();
    let settings = Settings::default();
    let next = afterwards(&machine, 1999, 0.95);
    let first = next.1.clone();
    assert_eq!(first.memory.len(), 1);
    assert_eq!(first.memory[0].action, MemoryAction::Dynamic);
    assert_eq!(
        action(&machine, &next, &settings),
        None,
        "too early to tell"
    );
    let early = plan_after(&machine, &next.0, &settings, &first);
    assert_eq!(early.following, first.following, "it goes on");
    let next = afterwards(&machine, 2000, 0.95);
    let full = plan_after(&machine, &next.0, &settings, &next.1);
    let MemoryAction::Full {
        old_share,
        copies,
        cost_ns,
        chunk_pages,
        ..
    } = &full.memory[0].action
    else {
        panic!("{}", full.memory[0])
    };
    assert!((old_share - 0.95).abs() < 1e-12);
    assert_eq!(
        *copies,
        [
            (NodeId(0), NodeId(2), 3 * GB),
            (NodeId(1), NodeId(3), 4 * GB)
        ]
    );
    assert_eq!((*cost_ns, *chunk_pages), (2_100_000_000, 30_000));
    assert_eq!(full.following, [], "that ends it");
    let next = afterwards(&machine, 2000, 0.9);
    assert!(matches!(
        action(&machine, &next, &settings),
        Some(MemoryAction::Settled { .. })
    ));
    let patient = Settings {
        full_after_ms: 3000,
        ..settings.clone()
    };
    let next = afterwards(&machine, 2000, 0.95);
    assert_eq!(action(&machine, &next, &patient), None);
    let never = Settings {
        full_memory: false,
        ..settings
    };
    assert!(matches!(
        action(&machine, &next, &never),
        Some(MemoryAction::Settled { .. })
    ));
}

#[test]
fn a_full_migration_that_the_budget_does_not_have_waits_for_it() {
    let machine = uneven();
    let (mut next, first) = afterwards(&machine, 2000, 0.95);
    next.processes[0].running_ns = 42 * GB - 1000;
    let found = plan_after(&machine, &next, &Settings::default(), &first);
    let MemoryAction::Short {
        cost_ns,
        allowed_ns,
        ..
    } = found.memory[0].action
    else {
        panic!("{}", found.memory[0])
    };
    assert!(cost_ns > allowed_ns);
    assert_eq!(found.following, first.following);
    next.processes[0].running_ns = 42 * GB;
    next.end_ns += GB;
    let found = action(&machine, &(next, found), &Settings::default());
    assert!(matches!(found, Some(MemoryAction::Full { .. })));
}

#[test]
fn a_process_whose_memory_follows_is_not_moved_again() {
    let machine = uneven();
    let facts = process(&machine, 1, &[0, 1], 1e8);
    let mut again = window(vec![facts]);
    let first = plan(&machine, &again, &Settings::default());
    again.end_ns += GB;
    let second = plan_after(&machine, &again, &Settings::default(), &first);
    let process = first.moves[0].process;
    assert_eq!(second.decision, Decision::StillFollowing { process });
    assert_eq!(second.moves, []);
    assert_eq!(second.following, first.following);
    again.end_ns += GB;
    // Its accesses are not to nodes it has left: it never went.
    assert_eq!(
        ways(&plan_after(&machine, &again, &Settings::default(), &second)),
        ways(&first)
    );
}

#[test]
fn what_makes_no_sense_is_refused_or_left_out() {
    let machine = uneven();
    let good = || {
        window(vec![
            process(&machine, 1, &[0, 1], 1e8),
            process(&machine, 2, &[2, 3], 2e6),
        ])
    };
    let spoilt = |spoil: &dyn Fn(&mut AccessWindow)| {
        let mut window = good();
        spoil(&mut window);
        let error = window.validate(&machine).expect_err("nonsense");
        assert!(!error.to_string().contains('\n'));
        plan(&machine, &window, &Settings::default());
        error
    };
    assert_eq!(good().validate(&machine), Ok(()));
    let error = spoilt(&|window| window.processes[1].process = window.processes[0].process);
    assert!(matches!(error, AccessError::ProcessTwice { .. }));
    let error = spoilt(&|window| window.processes[0].nodes[1].node = NodeId(0));
    assert!(matches!(error, AccessError::NodeTwice { .. }));
    let error = spoilt(&|window| window.processes[0].nodes[1].node = NodeId(9));
    assert!(matches!(error, AccessError::UnknownNode { .. }));
    for rate in [f64::NAN, f64::INFINITY, -1.0] {
        let error = spoilt(&|window| window.processes[0].nodes[0].accesses_s[1] = rate);
        assert!(matches!(error, AccessError::Accesses { .. }));
    }
    let error = spoilt(&|window| window.processes[0].nodes[0].accesses_s.push(1.0));
    assert!(matches!(error, AccessError::Accesses { .. }));
    let mut huge = good();
    huge.processes
        .iter_mut()
        .flat_map(|facts| &mut facts.nodes)
        .for_each(|each| each.resident_bytes = u64::MAX);
    let refused = plan(&machine, &huge, &Settings::default());
    assert!(
        matches!(refused.decision, Decision::OverBudget { .. }),
        "{}",
        refused.decision
    );
}

#[test]
fn a_search_that_would_take_too_long_is_cut_and_says_so() {
    let machine = Machine::profile("bulldozer-8n").expect("a profile");
    let facts = || {
        vec![
            process(&machine, 1, &[0, 3, 5], 1e8),
            process(&machine, 2, &[1, 4, 6], 1e7),
        ]
    };
    let short = Settings {
        max_placements: 50,
        ..Settings::default()
    };
    let cut = plan(&machine, &window(facts()), &short);
    assert!(!cut.search.is_complete && cut.search.considered <= 50);
    let full = plan(&machine, &window(facts()), &Settings::default());
    assert!(full.search.is_complete);
}

#[test]
fn plans_are_told_in_single_lines_and_read_back() {
    let machine = uneven();
    let moving = planned(&machine, crossed(&machine, [100 * GB; 2], [0; 2]));
    let refused = planned(&machine, crossed(&machine, [GB; 2], [0; 2]));
    let (full, _) = afterwards(&machine, 2000, 0.95);
    let full = plan(&machine, &full, &Settings::default());
    for plan in [moving, refused, full] {
        let moves = plan.moves.iter().map(ToString::to_string);
        let steps = plan.memory.iter().map(ToString::to_string);
        for line in moves.chain(steps).chain([plan.decision.to_string()]) {
            assert!(
                line.len() > 20 && !line.contains('\n') && !line.contains("NaN"),
                "{line}"
            );
        }
        let text = serde_json::to_string(&plan).expect("plain data");
        let again: PlacementPlan = serde_json::from_str(&text).expect("what was written");
        assert_eq!(again, plan);
    }
}
