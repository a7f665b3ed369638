//! The profiles of machines that are not emulated say what their sources say, and say it of every node.

use egeria_machine::{AccessKind, Machine, Memory, MemoryKind, Node};

fn machine(name: &str) -> Machine {
    Machine::profile(name).unwrap_or_else(|error| panic!("{error}"))
}

fn memory(node: &Node, kind: MemoryKind) -> &Memory {
    let mut of_kind = node.hardware.memories.iter().filter(|m| m.kind == kind);
    of_kind.next().expect("the node has such a memory")
}

fn cores(machine: &Machine) -> usize {
    machine.nodes.iter().map(|node| node.cpus.len()).sum()
}

/// Every node with CPUs has DRAM and a cache, every node without is an expander, and all speeds are there.
#[test]
fn every_real_machine_says_how_fast_its_memories_are() {
    for name in Machine::profile_names() {
        let machine = machine(name);
        if machine.is_emulated() {
            continue;
        }
        for node in &machine.nodes {
            let kinds: Vec<MemoryKind> = node.hardware.memories.iter().map(|m| m.kind).collect();
            if node.cpus.is_empty() {
                assert_eq!(kinds, [MemoryKind::Expander], "{name}");
                continue;
            }
            assert_eq!(kinds.first(), Some(&MemoryKind::Dram), "{name}");
            assert!(node.hardware.cache.is_some(), "{name}");
        }
    }
}

/// One thread never gets more than all, and a write never more than a read.
#[test]
fn figures_are_in_order() {
    for name in Machine::profile_names() {
        let machine = machine(name);
        for memory in machine
            .nodes
            .iter()
            .flat_map(|node| &node.hardware.memories)
        {
            assert!(memory.read_stream_bytes_s <= memory.read_bytes_s, "{name}");
            assert!(
                memory.write_stream_bytes_s <= memory.write_bytes_s,
                "{name}"
            );
            assert!(memory.write_bytes_s <= memory.read_bytes_s, "{name}");
        }
    }
}

#[test]
fn nodes_of_a_profile_are_alike() {
    for name in Machine::profile_names() {
        let machine = machine(name);
        let first = |other: &Node| {
            let mut alike = machine.nodes.iter();
            alike.find(|node| node.cpus.is_empty() == other.cpus.is_empty())
        };
        for node in &machine.nodes {
            let like = first(node).expect("at least itself");
            assert_eq!(node.hardware, like.hardware, "{name}");
            assert_eq!(node.memory_bytes, like.memory_bytes, "{name}");
            assert_eq!(node.cpus.len(), like.cpus.len(), "{name}");
        }
        if let Some(emulated) = &machine.emulated {
            assert!(
                emulated.nodes.iter().all(|node| *node == emulated.nodes[0]),
                "{name}"
            );
        }
    }
}

#[test]
fn a_profile_reads_back_as_it_was_written() {
    for name in Machine::profile_names() {
        let machine = machine(name);
        let mut again = Machine::from_toml(&machine.to_toml(), "again.toml".as_ref())
            .unwrap_or_else(|error| panic!("{error}"));
        again.source = machine.source.clone();
        let shared = machine.is_emulated();
        if shared {
            for (node, original) in again.nodes.iter_mut().zip(&machine.nodes) {
                node.cpus = original.cpus.clone();
            }
        }
        assert_eq!(again, machine, "{name}");
    }
}

/// PATS Table I and §III-B1 (claims P02 to P05, P16 to P19).
#[test]
fn optane_1s_is_the_single_socket_testbed_of_pats() {
    for (name, dimms, controller) in [
        ("optane-1s", 1, 0),
        ("optane-1s-2i", 2, 0),
        ("optane-1s-3i", 3, 0),
        ("optane-1s-dimc", 1, 1),
    ] {
        let machine = machine(name);
        assert_eq!((machine.nodes.len(), cores(&machine)), (1, 16), "{name}");
        let dram = memory(&machine.nodes[0], MemoryKind::Dram);
        let persistent = memory(&machine.nodes[0], MemoryKind::Persistent);
        assert_eq!(
            (dram.controller, dram.modules, dram.bytes),
            (0, 3, 96_000_000_000)
        );
        assert_eq!(
            (persistent.controller, persistent.modules),
            (controller, dimms)
        );
        assert_eq!(persistent.bytes, u64::from(dimms) * 128_000_000_000);
        assert_eq!(persistent.granularity_bytes, 256);
    }
}

/// PATS Fig. 1 and §V-B2 (claims P02 to P05): what many threads get of what one or the best number gets.
#[test]
fn one_dimm_loses_to_concurrency_what_pats_measured() {
    let machine = machine("optane-1s");
    let medium = memory(&machine.nodes[0], MemoryKind::Persistent).medium();
    let capacity = |kind, threads| medium.capacity_bytes_s(kind, false, threads);
    let one = medium.read.stream_bytes_s;
    let near = |found: f64, said: f64| assert!((found / said - 1.0).abs() < 0.01, "{found} {said}");
    near(capacity(AccessKind::Read, 5) / one, 2.2);
    near(capacity(AccessKind::Read, 14) / one, 2.0);
    near(capacity(AccessKind::Write, 4), medium.write.bytes_s);
    near(capacity(AccessKind::Write, 14) / medium.write.bytes_s, 0.55);
}

/// PATS §III-B4 (claim P23), and the lines that wait in Fig. 3 (claim P07).
#[test]
fn interleaved_dimms_add_up_and_queues_explain_the_latency() {
    let one = machine("optane-1s");
    let three = machine("optane-1s-3i");
    let written =
        |machine: &Machine| memory(&machine.nodes[0], MemoryKind::Persistent).write_bytes_s;
    assert!((written(&three) / written(&one) - 3.0).abs() < 0.01);
    let node = &one.nodes[0];
    let persistent = memory(node, MemoryKind::Persistent);
    let queue = node.hardware.controllers[0].queue_lines;
    let capacity = persistent
        .medium()
        .capacity_bytes_s(AccessKind::Read, false, 14);
    let on_their_way = 14 * persistent.lines_in_flight(AccessKind::Read) + 1;
    // What is being served waits for nobody.
    let in_service = capacity / 64.0 * persistent.read_latency_ns / 1e9;
    let waiting = f64::from(on_their_way - queue) - in_service;
    let latency_ns = 75.0 + waiting * 64.0 / capacity * 1e9;
    assert!((latency_ns / 1820.0 - 1.0).abs() < 0.01, "{latency_ns}");
}

/// OdinFS slides (claim O03).
#[test]
fn odin_8s_has_224_cores_on_8_sockets_at_most_2_links_apart() {
    let machine = machine("odin-8s");
    assert_eq!((machine.nodes.len(), cores(&machine)), (8, 224));
    let paths = machine.paths().unwrap().unwrap();
    for from in 0..8 {
        let links = |to: &usize| paths.way(from, *to).len() == 1;
        assert_eq!((0..8).filter(links).count(), 3, "links of socket {from}");
        for to in 0..8 {
            let way = paths.way(from, to).len();
            assert!(way <= 2);
            assert_eq!(machine.distances[from][to], [10, 21, 31][way]);
        }
    }
}

/// NThread §V-F: 16 GB of DRAM per node, most of which stands for persistent memory.
#[test]
fn optane_4s_emulated_has_nthreads_memory() {
    let machine = machine("optane-4s-emulated");
    for node in &machine.nodes {
        let region: u64 = node
            .persistent_regions
            .iter()
            .map(|region| region.bytes)
            .sum();
        assert_eq!((region, node.memory_bytes), (12_000_000_000, 4_000_000_000));
    }
    let declared = machine.emulated.unwrap();
    assert_eq!((declared.nodes.len(), declared.nodes[0].cores), (4, 10));
}

/// Expanders are reached over their socket, and nothing is persistent.
#[test]
fn epyc_2s_cxl_reaches_remote_expanders_at_a_lower_rate() {
    let machine = machine("epyc-2s-cxl");
    assert_eq!((machine.nodes.len(), cores(&machine)), (4, 192));
    let paths = machine.paths().unwrap().unwrap();
    let (near, far) = (paths.way(0, 2), paths.way(1, 2));
    assert_eq!((near.len(), far.len()), (1, 1));
    // EuroSys'24, cxl/log_d2_c32_w0_r0.
    assert!(paths.widest_bytes_s(2, 1) < paths.widest_bytes_s(2, 0) / 2.0);
    assert!(paths.widest_bytes_s(3, 0) < paths.widest_bytes_s(3, 1) / 2.0);
    let kinds = machine
        .nodes
        .iter()
        .flat_map(|node| &node.hardware.memories);
    assert!(
        kinds
            .map(|memory| memory.kind)
            .all(|kind| kind != MemoryKind::Persistent)
    );
}
