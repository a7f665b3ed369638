//! Clusters are placed as by trying every placement, with far fewer tried.

use crate::brute_force;
use crate::clusters;

use brute_force::{Best, brute_force};
use clusters::{GB, linked, obeyed, process, window};
use egeria_facts::AccessWindow;
use egeria_machine::Machine;
use egeria_policy::asymsched::{Decision, PlacementPlan, Settings, plan, plan_after};
use proptest::prelude::*;

/// What a plan chose, with `P_mm`, as the reference tells it.
fn chosen(plan: &PlacementPlan) -> Best {
    match plan.decision {
        Decision::Stay { now_wbw, best_wbw } => Best {
            now: now_wbw,
            best: best_wbw,
            chosen: now_wbw,
            bytes: 0,
        },
        Decision::Move {
            now_wbw,
            chosen_wbw,
            best_wbw,
            bytes,
            ..
        } => Best {
            now: now_wbw,
            best: best_wbw,
            chosen: chosen_wbw,
            bytes,
        },
        ref other => panic!("{other}"),
    }
}

fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-8 * one.abs().max(other.abs())
}

fn same_as_brute_force(
    machine: &Machine,
    window: &AccessWindow,
) -> Result<PlacementPlan, TestCaseError> {
    let settings = Settings::default();
    let plan = plan(machine, window, &settings);
    let (found, tried) = (
        chosen(&plan),
        brute_force(machine, window, &plan, &settings),
    );
    let is_same = near(found.now, tried.now)
        && near(found.best, tried.best)
        && near(found.chosen, tried.chosen)
        && found.bytes == tried.bytes;
    prop_assert!(is_same, "{found:?}\n{tried:?}\n{plan:?}");
    prop_assert!(plan.search.is_complete);
    Ok(plan)
}

/// A machine of 2 to 5 nodes: a ring, and lanes across it; widths few (many equivalent placements) or any.
fn machines() -> impl Strategy<Value = Machine> {
    let width = || prop_oneof![(1..=4u32).prop_map(|gb| f64::from(gb) * 1e9), 1e8..9e9];
    (2..=5usize).prop_flat_map(move |nodes| {
        let across = prop::collection::vec(prop::option::weighted(0.4, width()), nodes * nodes);
        let ring = prop::collection::vec(width(), nodes);
        (across, ring).prop_map(move |(across, ring)| {
            let ends = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
            let lane = |((from, to), width): ((usize, usize), Option<f64>)| {
                let width = if to == (from + 1) % nodes {
                    Some(ring[from])
                } else {
                    width
                };
                width.filter(|_| from != to).map(|width| (from, to, width))
            };
            let links: Vec<_> = ends.zip(across).filter_map(lane).collect();
            linked(nodes, &links)
        })
    })
}

/// One to three processes on one to three nodes each, which may overlap; at least one spans nodes.
fn scenes() -> impl Strategy<Value = (Machine, AccessWindow)> {
    let one = |nodes: usize| {
        let places = prop::sample::subsequence((0..nodes).collect::<Vec<_>>(), 1..=nodes.min(3));
        let bytes = prop::collection::vec(prop_oneof![Just(0), Just(GB), 0..9 * GB], 3);
        (places, 6.0..9.0f64, bytes)
    };
    let parts = machines().prop_flat_map(move |machine| {
        let processes = prop::collection::vec(one(machine.nodes.len()), 1..=3);
        (Just(machine), processes)
    });
    let scene = parts.prop_map(|(machine, processes)| {
        let make = |(number, (places, power, bytes)): (usize, (Vec<usize>, f64, Vec<u64>))| {
            let mut facts = process(&machine, number as u32, &places, 10f64.powf(power));
            facts
                .nodes
                .iter_mut()
                .zip(bytes)
                .for_each(|(each, bytes)| each.resident_bytes = bytes);
            facts
        };
        let processes = processes.into_iter().enumerate().map(make).collect();
        (machine, window(processes))
    });
    scene.prop_filter("some process spans nodes", |(_, window)| {
        window.processes.iter().any(|facts| facts.nodes.len() > 1)
    })
}

/// Failures are told, not kept in files.
fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(cases)
    }
}

proptest! {
    #![proptest_config(config(1500))]

    /// §4.2, Steps 2 and 3.
    #[test]
    fn the_placement_is_the_one_that_trying_all_finds((machine, window) in scenes()) {
        window.validate(&machine).unwrap();
        same_as_brute_force(&machine, &window)?;
    }

    #[test]
    fn the_order_of_processes_and_nodes_does_not_matter(
        (machine, window) in scenes(),
        seed in any::<prop::sample::Index>(),
    ) {
        let mut shuffled = window.clone();
        shuffled.processes.reverse();
        for facts in &mut shuffled.processes {
            let turn = seed.index(facts.nodes.len());
            facts.nodes.rotate_left(turn);
        }
        let first = plan(&machine, &window, &Settings::default());
        prop_assert_eq!(&plan(&machine, &shuffled, &Settings::default()), &first);
        prop_assert_eq!(plan(&machine, &window, &Settings::default()), first);
    }

    #[test]
    fn a_stable_load_is_left_alone_from_the_second_decision_on((machine, window) in scenes()) {
        let first = plan(&machine, &window, &Settings::default());
        let mut window = obeyed(&machine, &window, &first);
        let mut last = first.clone();
        for _ in 0..4 {
            let next = plan_after(&machine, &window, &Settings::default(), &last);
            prop_assert!(matches!(next.decision, Decision::Stay { .. }), "{first:?}\n{next:?}");
            window = obeyed(&machine, &window, &next);
            last = next;
        }
    }

    /// No two end up on one node, nobody leaves a process behind, and nodes that take threads have cores.
    #[test]
    fn moves_are_a_permutation_of_nodes((machine, window) in scenes()) {
        let found = plan(&machine, &window, &Settings::default());
        let after = obeyed(&machine, &window, &found);
        after.validate(&machine).unwrap();
        let mut ways: Vec<_> = found.moves.iter().map(|step| (step.from, step.to)).collect();
        ways.sort_unstable();
        ways.dedup();
        for (index, (from, to)) in ways.iter().enumerate() {
            prop_assert!(from != to);
            let clash = ways[..index].iter().any(|(other_from, other_to)| other_from == from || other_to == to);
            prop_assert!(!clash, "{ways:?}");
        }
        for (from, to) in &ways {
            let is_left = ways.iter().any(|(other, _)| other == to);
            let entries = window.processes.iter().flat_map(|facts| &facts.nodes);
            let was_free = entries.clone().all(|each| each.node != *to);
            prop_assert!(is_left || was_free, "{to:?} is taken");
            let on_node = window.processes.iter().filter(|facts| facts.nodes.iter().any(|each| each.node == *from));
            prop_assert_eq!(on_node.count(), found.moves.iter().filter(|step| step.from == *from).count());
        }
    }
}

/// §4.3: with 4 clusters of 2 nodes the paper computes 20 of 5,040 placements (claim A36).
#[test]
fn at_most_20_placements_are_computed_on_machine_a() {
    let machine = Machine::profile("bulldozer-8n").expect("a profile");
    let starts: [[[usize; 2]; 4]; 4] = [
        [[0, 1], [2, 3], [4, 5], [6, 7]],
        [[0, 3], [1, 6], [2, 7], [4, 5]],
        [[0, 7], [5, 6], [1, 3], [2, 4]],
        [[3, 6], [0, 5], [2, 7], [1, 4]],
    ];
    for start in starts {
        for weights in [[6.0, 7.0, 8.0, 9.0], [9.0, 6.5, 8.9, 7.0], [8.0; 4]] {
            let processes = start.iter().zip(weights).enumerate();
            let make = |(number, (nodes, power)): (usize, (&[usize; 2], f64))| {
                process(&machine, number as u32, nodes, 10f64.powf(power))
            };
            let window = window(processes.map(make).collect());
            let plan = same_as_brute_force(&machine, &window).unwrap();
            println!("{start:?} {weights:?}: {:?} {}", plan.search, plan.decision);
            assert!(plan.search.evaluated <= 20, "{:?}", plan.search);
        }
    }
}

/// The paper's loads of several applications (§5.3), from bad starts, with and without nodes to spare.
#[test]
fn the_papers_loads_are_placed_as_by_trying_all() {
    let loads: [(&str, &[&[usize]]); 6] = [
        ("bulldozer-8n", &[&[0, 3, 5], &[1, 4, 6], &[2, 7]]),
        ("bulldozer-8n", &[&[0, 4, 5, 6, 7], &[1, 2, 3]]),
        ("bulldozer-8n", &[&[3, 5, 7]]),
        ("bulldozer-b", &[&[0, 3, 5], &[1, 6], &[2], &[4]]),
        ("bulldozer-c", &[&[0, 3], &[1, 2]]),
        ("bulldozer-d", &[&[0, 1, 3]]),
    ];
    for (name, nodes) in loads {
        let machine = Machine::profile(name).expect("a profile");
        let make = |(number, nodes): (usize, &&[usize])| {
            process(
                &machine,
                number as u32,
                nodes,
                10f64.powi(9 - number as i32),
            )
        };
        let window = window(nodes.iter().enumerate().map(make).collect());
        let plan = same_as_brute_force(&machine, &window).unwrap();
        println!("{name} {nodes:?}: {:?} {}", plan.search, plan.decision);
        assert!(
            matches!(plan.decision, Decision::Move { .. }),
            "{}",
            plan.decision
        );
        assert!(plan.search.evaluated <= 20, "{:?}", plan.search);
    }
}

/// Eight processes on two nodes each, every node shared by two: 40,320 placements.
#[test]
fn clusters_that_share_nodes_are_placed_as_by_trying_all() {
    let machine = Machine::profile("bulldozer-8n").expect("a profile");
    let ring = [0, 3, 6, 1, 4, 7, 2, 5];
    let make = |number: usize| {
        let nodes = [ring[number], ring[(number + 1) % 8]];
        process(
            &machine,
            number as u32,
            &nodes,
            10f64.powf(6.5 + number as f64 / 3.0),
        )
    };
    let plan = same_as_brute_force(&machine, &window((0..8).map(make).collect())).unwrap();
    assert!(
        matches!(plan.decision, Decision::Move { .. }),
        "{}",
        plan.decision
    );
    assert!(plan.search.considered < 40_320, "{:?}", plan.search);
}

/// As many nodes as a machine may have, in a ring with a wide link between every second two.
#[test]
fn the_largest_machine_is_placed_well_though_not_best() {
    let link = |node: usize| (node, (node + 1) % 64, [8e9, 1e9][node % 2]);
    let there = (0..64).map(link);
    let back = there.clone().map(|(from, to, width)| (to, from, width));
    let machine = linked(64, &there.chain(back).collect::<Vec<_>>());
    // Every process one node beside the wide links.
    let make = |number: usize| {
        process(
            &machine,
            number as u32,
            &[2 * number + 1, 2 * number + 2],
            1e8,
        )
    };
    let window = window((0..31).map(make).collect());
    let plan = plan(&machine, &window, &Settings::default());
    assert!(!plan.search.is_complete);
    let Decision::Move {
        now_wbw,
        chosen_wbw,
        ..
    } = plan.decision
    else {
        panic!("{}", plan.decision)
    };
    assert!(chosen_wbw > 2.0 * now_wbw, "{}", plan.decision);
}
