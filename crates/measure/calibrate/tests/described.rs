//! What was measured becomes a machine that reads back and says what was measured.

use egeria_calibrate::{CacheFigures, Calibration, Latency, MeasuredMemory, Stream};
use egeria_machine::{Machine, MemoryKind, NodeId};
use proptest::prelude::*;

/// Nodes with two CPUs each, those at the end without.
fn machine(with_cpus: u16, without: u16) -> Machine {
    let node = |id: u16| {
        let cpus = format!("cpus = \"{}-{}\"\n", 2 * id, 2 * id + 1);
        let cpus = if id < with_cpus { cpus } else { String::new() };
        format!("[[nodes]]\nid = {id}\nmemory_bytes = 1_000_000\n{cpus}")
    };
    let nodes: String = (0..with_cpus + without).map(node).collect();
    let text = format!("name = \"found\"\n{nodes}");
    Machine::from_toml(&text, "found.toml".as_ref()).unwrap_or_else(|error| panic!("{error}"))
}

/// Figures for one and two threads from every node with CPUs; `figure` gives each.
fn measured(machine: &Machine, mut figure: impl FnMut() -> f64) -> Calibration {
    let memories: Vec<MeasuredMemory> = machine
        .nodes
        .iter()
        .map(|node| MeasuredMemory {
            node: node.id,
            kind: if node.cpus.is_empty() {
                MemoryKind::Expander
            } else {
                MemoryKind::Dram
            },
            path: None,
            is_direct: true,
            bytes: node.memory_bytes,
            modules: None,
        })
        .collect();
    let (mut streams, mut latencies, mut caches) = (Vec::new(), Vec::new(), Vec::new());
    for node in machine.nodes.iter().filter(|node| !node.cpus.is_empty()) {
        for memory in 0..memories.len() {
            streams.extend([1, 2].map(|threads| Stream {
                cpu_node: node.id,
                memory,
                threads,
                read_bytes_s: figure(),
                write_bytes_s: figure(),
                nontemporal_write_bytes_s: figure(),
                mixed_bytes_s: figure(),
            }));
            latencies.push(Latency {
                cpu_node: node.id,
                memory,
                read_ns: figure() / 1e9,
                write_ns: figure() / 1e9,
            });
        }
        caches.push(CacheFigures {
            node: node.id,
            bytes: 1 << 20,
            latency_ns: figure() / 1e9,
            read_bytes_s: figure(),
        });
    }
    Calibration {
        buffer_bytes: 1 << 20,
        rounds: 5,
        measured_s: 1.0,
        memories,
        streams,
        latencies,
        caches,
        ..Calibration::default()
    }
}

fn read_back(machine: &Machine) -> Machine {
    Machine::from_toml(&machine.to_toml(), "found.toml".as_ref())
        .unwrap_or_else(|error| panic!("{error}\n{}", machine.to_toml()))
}

proptest! {
    /// Whatever was measured, also nothing at all, becomes a file that reads back, with all nodes within reach.
    #[test]
    fn any_figures_become_a_machine_that_reads_back(
        with_cpus in 1..5_u16,
        without in 0..3_u16,
        figures in prop::collection::vec(prop_oneof![Just(0.0), 1e-3..1e12_f64], 1..50),
    ) {
        let found = machine(with_cpus, without);
        let mut cycle = figures.iter().cycle();
        let described = measured(&found, || *cycle.next().unwrap()).machine(&found);
        let again = read_back(&described);
        prop_assert_eq!(&again.nodes, &described.nodes);
        prop_assert_eq!(&again.interconnect, &described.interconnect);
        for node in &again.nodes {
            prop_assert_eq!(node.hardware.memories.len(), 1);
            let memory = &node.hardware.memories[0];
            prop_assert!(memory.read_stream_bytes_s <= memory.read_bytes_s);
            prop_assert!(memory.write_stream_bytes_s <= memory.write_bytes_s);
        }
        let all_tried = figures.iter().all(|figure| *figure > 0.0);
        let nodes = with_cpus + without;
        if all_tried && nodes > 1 {
            prop_assert!(again.paths().unwrap().is_some());
        }
    }
}

/// Two sockets and an expander at the first, in round numbers: GB/s and ns.
fn two_sockets() -> (Machine, Calibration) {
    let mut found = machine(2, 1);
    // The expander is nearer to node 1 than node 1 is to the expander.
    found.distances = vec![vec![10, 20, 17], vec![20, 10, 30], vec![28, 14, 10]];
    let mut calibration = measured(&found, || 1.0);
    let table = [
        // node, memory, threads, read, written
        (0, 0, 1, 10.0, 8.0),
        (0, 0, 2, 16.0, 6.0),
        (0, 1, 1, 5.0, 2.0),
        (0, 1, 2, 9.0, 3.0),
        (0, 2, 1, 4.0, 4.0),
        (0, 2, 2, 7.0, 7.0),
        (1, 0, 1, 5.0, 2.0),
        (1, 0, 2, 8.0, 3.0),
        (1, 1, 1, 10.0, 8.0),
        (1, 1, 2, 16.0, 6.0),
        (1, 2, 1, 2.0, 1.0),
        (1, 2, 2, 3.0, 2.0),
    ];
    for (stream, (node, memory, threads, read, written)) in
        calibration.streams.iter_mut().zip(table)
    {
        assert_eq!(
            (stream.cpu_node, stream.memory, stream.threads),
            (NodeId(node), memory, threads)
        );
        stream.read_bytes_s = read * 1e9;
        stream.nontemporal_write_bytes_s = written * 1e9;
    }
    let waits = [100.0, 160.0, 250.0, 180.0, 100.0, 400.0];
    for (latency, read_ns) in calibration.latencies.iter_mut().zip(waits) {
        latency.read_ns = read_ns;
        latency.write_ns = 80.0;
    }
    (found, calibration)
}

#[test]
fn a_memory_is_described_as_its_nearest_cpus_found_it() {
    let (found, calibration) = two_sockets();
    let machine = read_back(&calibration.machine(&found));
    let dram = &machine.nodes[0].hardware.memories[0];
    assert_eq!((dram.kind, dram.bytes), (MemoryKind::Dram, 1_000_000));
    assert_eq!((dram.read_bytes_s, dram.write_bytes_s), (16e9, 8e9));
    assert_eq!(
        (dram.read_stream_bytes_s, dram.write_stream_bytes_s),
        (10e9, 8e9)
    );
    assert_eq!((dram.read_latency_ns, dram.write_latency_ns), (100.0, 80.0));
    // Two threads read most; one wrote most, two wrote three quarters of it.
    assert_eq!(dram.read_curve, [(2, 1.0)]);
    assert_eq!(dram.write_curve, [(1, 1.0), (2, 0.75)]);
    // 10 GB/s * 100 ns and 8 GB/s * 80 ns, in lines of 64 bytes.
    assert_eq!(
        (dram.read_lines_in_flight, dram.write_lines_in_flight),
        (Some(16), Some(10))
    );
    let expander = &machine.nodes[2].hardware.memories[0];
    assert_eq!(
        (expander.kind, expander.read_bytes_s),
        (MemoryKind::Expander, 7e9)
    );
    assert_eq!(expander.read_latency_ns, 250.0);
    assert!(machine.nodes[2].hardware.cache.is_none());
    // What node 1 writes to it is all that their way carries.
    assert_eq!(expander.remote_write_bandwidth_factor, 1.0);
}

#[test]
fn mixing_costs_are_those_of_near_and_of_far_cpus() {
    let (found, mut calibration) = two_sockets();
    let apart = |stream: &Stream| {
        1.0 / (0.5 / stream.read_bytes_s + 0.5 / stream.nontemporal_write_bytes_s)
    };
    for stream in &mut calibration.streams {
        let left = match (stream.memory, stream.cpu_node) {
            (0, NodeId(0)) => 0.5,
            (0, _) => 0.25,
            (1, _) => 1.0,
            _ => 4.0,
        };
        stream.mixed_bytes_s = left * apart(stream);
    }
    let machine = read_back(&calibration.machine(&found));
    let curves = |node: usize| {
        let memory = &machine.nodes[node].hardware.memories[0];
        (memory.mix_curve.clone(), memory.remote_mix_curve.clone())
    };
    assert_eq!(curves(0), (vec![[0.5, 0.5]], vec![[0.5, 0.25]]));
    assert_eq!(curves(1), (Vec::new(), Vec::new()), "nothing is lost");
    assert_eq!(curves(2).0, [[0.5, 2.0]], "as much as a file may say");
}

#[test]
fn links_carry_what_was_got_over_them() {
    let (found, calibration) = two_sockets();
    let machine = read_back(&calibration.machine(&found));
    let link = |from: u16, to: u16| {
        let mut links = machine.interconnect.links.iter();
        let ends = (NodeId(from), NodeId(to));
        links
            .find(|link| (link.from, link.to) == ends)
            .unwrap()
            .clone()
    };
    // From 0 to 1: node 1 reads 8 of node 0, node 0 writes 3 to node 1. Back: 9 and 3.
    assert_eq!(
        (link(0, 1).bytes_s, link(0, 1).back_bytes_s),
        (8e9, Some(9e9))
    );
    // One thread reads over it at 5/8 and 5/9 of what it could, so a load takes 1.6 and 1.8 times its 100 ns; of 180 ns
    // that leaves 20 to the way there and back, of 160 ns none.
    assert_eq!(link(0, 1).latency_ns, 5.0);
    // The expander's own figures are those of node 0, over a way that adds nothing.
    assert_eq!(
        (link(0, 2).latency_ns, link(0, 2).back_bytes_s),
        (0.0, Some(7e9))
    );
    // 2 of the 3 that the way carries: 1.5 times 250 ns of 400 ns.
    assert_eq!(link(1, 2).latency_ns, 12.5);
    // Writes over the way get 3 of the 8 that the memory takes (the way carries 9 and 8 of reads).
    let dram = &machine.nodes[0].hardware.memories[0];
    assert_eq!(
        (
            dram.remote_read_bandwidth_factor,
            dram.remote_write_bandwidth_factor
        ),
        (1.0, 0.375)
    );
}

#[test]
fn a_machine_of_one_node_has_no_links() {
    let found = machine(1, 0);
    let described = measured(&found, || 1e9).machine(&found);
    assert_eq!(described.interconnect.links, []);
    assert!(read_back(&described).paths().unwrap().is_none());
}

/// A node whose CPUs might not be used was measured from nowhere.
#[test]
fn nodes_that_could_not_be_tried_leave_no_half_of_a_network() {
    let found = machine(3, 0);
    let mut calibration = measured(&found, || 1e9);
    calibration
        .streams
        .retain(|stream| stream.cpu_node == NodeId(0));
    calibration
        .latencies
        .retain(|latency| latency.cpu_node == NodeId(0));
    let described = read_back(&calibration.machine(&found));
    assert_eq!(described.nodes[2].hardware.memories.len(), 1);
    assert!(described.paths().unwrap().is_some());
}
