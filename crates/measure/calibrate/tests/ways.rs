//! Links and routes are found again from what flows get over them.

use egeria_calibrate::{
    Both, Calibration, Flows, Latency, MeasuredMemory, NodeFlow, Pair, Stream, Way,
};
use egeria_machine::fair::{Flow, max_min_shares};
use egeria_machine::{Link, Machine, MemoryKind, NodeId, Paths};
use proptest::prelude::*;

const GB: f64 = 1e9;
/// Each memory gives so much, and the CPUs of each node take so much: more than two links.
const MEMORY_BYTES_S: f64 = 40.0 * GB;

fn machine(nodes: usize) -> Machine {
    let node =
        |id: usize| format!("[[nodes]]\nid = {id}\nmemory_bytes = 1_000_000\ncpus = \"{id}\"\n");
    let nodes: String = (0..nodes).map(node).collect();
    let text = format!("name = \"links\"\n{nodes}");
    Machine::from_toml(&text, "links.toml".as_ref()).unwrap_or_else(|error| panic!("{error}"))
}

fn id(node: usize) -> NodeId {
    NodeId(node as u16)
}

/// Links of a tree that carry both ways, and others that may carry one.
fn linked() -> impl Strategy<Value = Machine> {
    let width = || prop::sample::select(vec![3.0, 6.0, 9.0, 12.0]);
    let nodes = 3..=8_usize;
    nodes.prop_flat_map(move |nodes| {
        let tree =
            prop::collection::vec((any::<prop::sample::Index>(), width(), width()), nodes - 1);
        let more = prop::collection::vec(
            (0..nodes, 0..nodes, width(), prop::option::of(width())),
            0..nodes,
        );
        (tree, more).prop_map(move |(tree, more)| {
            let mut machine = machine(nodes);
            let mut lanes = std::collections::BTreeSet::new();
            let mut add = |from: usize, to: usize, width: f64, back: Option<f64>| {
                let is_new =
                    from != to && !lanes.contains(&(from, to)) && !lanes.contains(&(to, from));
                if is_new {
                    lanes.insert((from, to));
                    machine.interconnect.links.push(Link {
                        from: id(from),
                        to: id(to),
                        bytes_s: width * GB,
                        back_bytes_s: back.map(|width| width * GB),
                        latency_ns: 100.0,
                    });
                }
            };
            for (index, (parent, width, back)) in tree.into_iter().enumerate() {
                add(parent.index(index + 1), index + 1, width, Some(back));
            }
            for (from, to, width, back) in more {
                add(from, to, width, back);
            }
            machine
        })
    })
}

fn paths(machine: &Machine) -> Paths {
    let paths = machine.paths().unwrap_or_else(|error| panic!("{error}"));
    paths.expect("links")
}

/// What each of these flows gets.
fn rates(paths: &Paths, nodes: usize, ways: &[Way]) -> Vec<f64> {
    let mut capacities: Vec<f64> = paths.lanes.iter().map(|lane| lane.bytes_s).collect();
    let lanes = capacities.len();
    capacities.extend(vec![MEMORY_BYTES_S; 2 * nodes]);
    let flow = |&(from, to): &Way| {
        let mut uses: Vec<(usize, f64)> = paths
            .way(from, to)
            .iter()
            .map(|lane| (*lane, 1.0))
            .collect();
        uses.extend([(lanes + from, 1.0), (lanes + nodes + to, 1.0)]);
        Flow {
            uses,
            most: f64::INFINITY,
            weight: 1.0,
        }
    };
    let flows: Vec<Flow> = ways.iter().map(flow).collect();
    max_min_shares(&capacities, &flows)
}

fn ways(nodes: usize) -> Vec<Way> {
    let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
    pairs.filter(|(from, to)| from != to).collect()
}

/// What is measured; `noise` changes each figure.
fn measured(machine: &Machine, mut noise: impl FnMut() -> f64) -> Flows {
    let (paths, nodes) = (paths(machine), machine.nodes.len());
    let all = ways(nodes);
    let alone = all
        .iter()
        .map(|way| (*way, rates(&paths, nodes, &[*way])[0] * noise()));
    let alone = alone.collect();
    let mut both = Vec::new();
    for (at, one) in all.iter().enumerate() {
        for other in &all[at + 1..] {
            let rates = rates(&paths, nodes, &[*one, *other]);
            both.push(Both {
                ways: [*one, *other],
                bytes_s: [rates[0] * noise(), rates[1] * noise()],
            });
        }
    }
    Flows {
        memory_bytes_s: vec![MEMORY_BYTES_S; nodes],
        cpus_bytes_s: vec![MEMORY_BYTES_S; nodes],
        alone,
        both,
    }
}

/// The same as a whole calibration: nodes of two CPUs, one of which fills every way.
fn calibration(machine: &Machine, flows: &Flows) -> Calibration {
    let paths = paths(machine);
    let memory = |node: usize| MeasuredMemory {
        node: id(node),
        kind: MemoryKind::Dram,
        path: None,
        is_direct: true,
        bytes: 1_000_000,
        modules: None,
    };
    let nodes = machine.nodes.len();
    let (mut streams, mut latencies) = (Vec::new(), Vec::new());
    for (cpu_node, memory) in
        (0..nodes).flat_map(|node| (0..nodes).map(move |memory| (node, memory)))
    {
        let alone = flows
            .alone
            .iter()
            .find(|(way, _)| *way == (memory, cpu_node));
        let bytes_s = alone.map_or(MEMORY_BYTES_S, |(_, bytes_s)| *bytes_s);
        // Written data goes the other way.
        let back = flows
            .alone
            .iter()
            .find(|(way, _)| *way == (cpu_node, memory));
        let written = back.map_or(MEMORY_BYTES_S, |(_, bytes_s)| *bytes_s);
        streams.extend([1, 2].map(|threads| Stream {
            cpu_node: id(cpu_node),
            memory,
            threads,
            read_bytes_s: bytes_s,
            write_bytes_s: bytes_s / 2.0,
            nontemporal_write_bytes_s: written / 2.0,
            mixed_bytes_s: bytes_s / 2.0,
        }));
        let crossed = |from: usize, to: usize| {
            if from == to {
                0.0
            } else {
                paths.latency_ns(from, to)
            }
        };
        latencies.push(Latency {
            cpu_node: id(cpu_node),
            memory,
            read_ns: 100.0 + crossed(cpu_node, memory) + crossed(memory, cpu_node),
            write_ns: 100.0,
        });
    }
    let flow = |(from, to): Way| NodeFlow {
        cpu_node: id(to),
        memory: from,
        threads: 1,
    };
    let pair = |both: &Both| Pair {
        flows: both.ways.map(flow),
        read_bytes_s: both.bytes_s,
    };
    Calibration {
        buffer_bytes: 1 << 20,
        rounds: 1,
        measured_s: 1.0,
        memories: (0..nodes).map(memory).collect(),
        streams,
        latencies,
        caches: Vec::new(),
        pairs: flows.both.iter().map(pair).collect(),
        ..Calibration::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_was_found_carries_what_was_measured(machine in linked(), seed in any::<u64>()) {
        gives_back(&machine, seed)?;
    }
}

/// From 5 to 2 the way goes over 0 and 1, from 0 to 2 over 6 and from 5 to 1 over 7.
#[test]
fn a_way_is_found_whose_parts_go_elsewhere() {
    let mut machine = machine(8);
    for (from, to, width, back) in [
        (0, 1, 3.0, Some(3.0)),
        (1, 2, 3.0, Some(3.0)),
        (0, 3, 3.0, Some(6.0)),
        (0, 4, 3.0, Some(3.0)),
        (0, 5, 3.0, Some(3.0)),
        (0, 6, 6.0, Some(3.0)),
        (1, 7, 3.0, Some(6.0)),
        (7, 5, 3.0, Some(6.0)),
        (6, 2, 6.0, None),
        (5, 4, 3.0, None),
    ] {
        machine.interconnect.links.push(Link {
            from: id(from),
            to: id(to),
            bytes_s: width * GB,
            back_bytes_s: back.map(|width: f64| width * GB),
            latency_ns: 100.0,
        });
    }
    let stops = |from: usize, to: usize| {
        let paths = paths(&machine);
        let way = paths.way(from, to).iter();
        way.map(|lane| paths.lanes[*lane].to)
            .collect::<Vec<usize>>()
    };
    assert_eq!((stops(5, 2), stops(0, 2)), (vec![0, 1, 2], vec![6, 2]));
    gives_back(&machine, 7).unwrap_or_else(|error| panic!("{error}"));
}

/// What is found of a machine carries what it does, within 10 %, over the same links.
fn gives_back(machine: &Machine, seed: u64) -> Result<(), TestCaseError> {
    let mut state = seed | 1;
    let noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        1.0 + 0.02 * ((state >> 33) as f64 / f64::from(1_u32 << 30) - 1.0)
    };
    let flows = measured(machine, noise);
    let found = flows.find();
    prop_assert_eq!(&found.unexplained, &Vec::<[Way; 2]>::new());
    let mut unknown = machine.clone();
    unknown.interconnect.links.clear();
    let described = calibration(machine, &flows).machine(&unknown);
    let (before, after) = (paths(machine), paths(&described));
    let nodes = machine.nodes.len();
    for (at, one) in ways(nodes).iter().enumerate() {
        let (was, is) = (
            before.widest_bytes_s(one.0, one.1),
            after.widest_bytes_s(one.0, one.1),
        );
        prop_assert!(
            (is / was - 1.0).abs() < 0.1,
            "{one:?}: {is:e} instead of {was:e}"
        );
        for other in &ways(nodes)[at + 1..] {
            let sum = |paths: &Paths| rates(paths, nodes, &[*one, *other]).iter().sum::<f64>();
            let (was, is) = (sum(&before), sum(&after));
            prop_assert!(
                (is / was - 1.0).abs() < 0.1,
                "{one:?} {other:?}: {is:e} instead of {was:e}"
            );
        }
    }
    let mut lanes: Vec<Way> = before
        .lanes
        .iter()
        .map(|lane| (lane.from, lane.to))
        .collect();
    lanes.sort_unstable();
    let mut links: Vec<Way> = after
        .lanes
        .iter()
        .map(|lane| (lane.from, lane.to))
        .collect();
    links.sort_unstable();
    prop_assert_eq!(links, lanes);
    Ok(())
}
