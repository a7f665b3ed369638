//! Ways that differ by direction, queues far too full, nodes without cores, and what is too much to follow.

use crate::common;
use common::*;
use egeria_machine::{
    AccessKind, Controller, CpuId, Hardware, Interconnect, Link, Machine, Memory, MemoryKind,
    NodeId,
};
use egeria_policy::planner::System;
use egeria_sim::{
    Allocation, FileGroup, MediumKind, Options, Pattern, Phase, ThreadGroup, Workload,
};

fn memory(kind: MemoryKind, bytes_s: f64, stream_bytes_s: f64) -> Memory {
    Memory {
        kind,
        read_bytes_s: bytes_s,
        write_bytes_s: bytes_s,
        read_stream_bytes_s: stream_bytes_s,
        write_stream_bytes_s: stream_bytes_s,
        read_latency_ns: 100.0,
        write_latency_ns: 100.0,
        remote_latency_factor: 1.0,
        remote_read_bandwidth_factor: 1.0,
        remote_write_bandwidth_factor: 1.0,
        read_curve: Vec::new(),
        write_curve: Vec::new(),
        granularity_bytes: 64,
        ..plain(1).as_memory()
    }
}

/// Nodes of so many cores each, with this memory.
fn nodes(cores: &[u16], memory: &Memory) -> Machine {
    let mut machine = machine(cores.len(), &plain(1));
    machine.emulated = None;
    let mut next = 0;
    for (node, cores) in machine.nodes.iter_mut().zip(cores) {
        node.cpus = (next..next + cores).map(CpuId).collect();
        next += cores;
        node.memory_bytes = 0;
        node.hardware = Hardware {
            memories: vec![memory.clone()],
            ..Hardware::default()
        };
    }
    machine
}

/// A link that carries and takes otherwise each way.
fn lopsided(machine: &mut Machine, there: f64, back: f64, latency_ns: f64) {
    machine.interconnect = Interconnect {
        links: vec![Link {
            from: NodeId(0),
            to: NodeId(1),
            bytes_s: there,
            back_bytes_s: Some(back),
            latency_ns,
        }],
        routes: Vec::new(),
    };
}

fn of(read_share: f64, request_bytes: u64) -> Phase {
    Phase {
        read_share,
        request_bytes,
        pattern: Pattern::Sequential,
        ..Phase::default()
    }
}

#[test]
fn reads_come_over_one_way_and_writes_go_over_the_other() {
    let mut machine = nodes(&[8, 8], &memory(MemoryKind::Persistent, 100e9, 100e9));
    lopsided(&mut machine, 4e9, 1e9, 0.0);
    // Threads of node 0 at the memory of node 1: writes go there, reads come back.
    let get = |read_share| {
        let options = Options {
            allocation: Allocation::InPlace,
            ..Options::of(System::Off)
        };
        let workload = workload(vec![threads("a", 8, 0, 1, of(read_share, 4096))]);
        egeria_sim::run(&machine, &workload, &options)
            .unwrap()
            .bytes_s
    };
    close(get(0.0), 4e9);
    close(get(1.0), 1e9);
}

#[test]
fn an_access_waits_for_the_way_there_and_the_way_back() {
    let mut machine = nodes(&[8, 8], &memory(MemoryKind::Persistent, 100e9, 100e9));
    lopsided(&mut machine, 1e12, 1e12, 30.0);
    let workload = workload(vec![threads("a", 1, 0, 1, of(1.0, 4096))]);
    let outcome = egeria_sim::run(&machine, &workload, &options(System::Off)).unwrap();
    close(
        outcome.groups[0].operation_ns,
        100.0 + 4096.0 / 100.0 + 60.0,
    );
}

#[test]
fn only_lines_that_wait_fill_a_queue() {
    let wide = Memory {
        read_lines_in_flight: Some(48),
        ..memory(MemoryKind::Dram, 1e12, 2e10)
    };
    let mut machine = nodes(&[1024], &wide);
    machine.nodes[0].hardware.controllers = vec![Controller {
        id: 0,
        queue_lines: 57,
    }];
    let alone = 4096.0 / (100e-9 + 4096.0 / 2e10);
    for count in [1, 8, 16, 64, 512, 1024] {
        let found = rate(&machine, vec![threads("a", count, 0, 0, of(1.0, 4096))]) * 4096.0;
        // A queue of 57 lines does not bound what memory serves, 48 lines of each thread or not.
        let ratio = found / (count as f64 * alone).min(1e12);
        let least = if count <= 64 { 0.999 } else { 0.95 };
        assert!((least..1.001).contains(&ratio), "{count}: {ratio}");
    }
}

#[test]
fn threads_that_wait_for_a_core_are_at_no_memory() {
    // Beside more than two, a memory gives less.
    let falling = Memory {
        read_curve: vec![(1, 1.0), (2, 1.0), (4, 0.25)],
        ..memory(MemoryKind::Persistent, 4e9, 4e9)
    };
    let machine = nodes(&[4, 4], &falling);
    let get = |count| {
        let (mut files, threads) = threads("a", count, 0, 0, of(1.0, 4096));
        files.node = None;
        files.nodes = vec![NodeId(0), NodeId(1)];
        let workload = workload(vec![(files, threads)]);
        egeria_sim::run(&machine, &workload, &options(System::Off))
            .unwrap()
            .bytes_s
    };
    // Four of them are on a core at one time, two at each memory, whoever waits behind them.
    let four = get(4);
    for count in [5, 8, 9, 16, 64] {
        close(get(count), four);
    }
}

#[test]
fn delegates_need_cores() {
    let slow = memory(MemoryKind::Persistent, 4e9, 1e9);
    // Two delegates per node, and one core; a thread of another node waits off its own.
    let machine = nodes(&[1, 1, 4], &slow);
    let mut workload = workload(vec![threads("a", 4, 2, 0, of(1.0, 1 << 20))]);
    workload.files[0].node = None;
    let mut options = Options::of(System::Odin);
    options.handover_ns = 0.0;
    options.planner.delegation.delegates_per_node = 4;
    let outcome = egeria_sim::run(&machine, &workload, &options).unwrap();
    let last = outcome.windows.last().unwrap();
    // A third of each operation on each node; the single cores of nodes 0 and 1 move 1 GB/s at most.
    assert!(outcome.bytes_s <= 3e9 * (1.0 + 1e-9), "{}", outcome.bytes_s);
    assert!(last.nodes[0].read_bytes_s > 0.9e9);
}

#[test]
fn memory_without_cores_has_its_delegates_next_door() {
    let machine = nodes(&[8, 0], &memory(MemoryKind::Persistent, 4e9, 1e9));
    let mut workload = workload(vec![threads("a", 2, 0, 0, of(1.0, 1 << 20))]);
    workload.files[0].node = None;
    let options = Options::of(System::Odin);
    let outcome = egeria_sim::run(&machine, &workload, &options).unwrap();
    for window in &outcome.windows {
        assert!(window.operations_s > 100.0);
    }
    let far = &outcome.windows.last().unwrap().nodes[1];
    assert!(far.read_bytes_s > 0.3e9 && far.threads == 0);
}

#[test]
fn programs_are_placed_by_what_they_access_per_second() {
    // The same program, decided upon every half and every two seconds, goes where it goes.
    let mut machine = nodes(&[4, 4, 4, 4], &memory(MemoryKind::Dram, 100e9, 20e9));
    let link = |from, to, bytes_s| Link {
        from: NodeId(from),
        to: NodeId(to),
        bytes_s,
        back_bytes_s: Some(bytes_s),
        latency_ns: 10.0,
    };
    machine.interconnect.links = vec![
        link(0, 1, 1e9),
        link(2, 3, 8e9),
        link(0, 2, 1e9),
        link(1, 3, 1e9),
    ];
    let program = ThreadGroup {
        name: "program".to_owned(),
        count: 8,
        files: "heap".to_owned(),
        shared: true,
        start_nodes: vec![NodeId(0), NodeId(1)],
        phases: vec![of(1.0, 4096)],
        ..ThreadGroup::default()
    };
    let heap = FileGroup {
        name: "heap".to_owned(),
        count: 1,
        bytes: 100_000_000,
        nodes: vec![NodeId(0), NodeId(1)],
        medium: MediumKind::Memory,
        ..FileGroup::default()
    };
    let mut load = workload(vec![(heap, program)]);
    load.seconds = 60.0;
    load.warm_up_seconds = 40.0;
    // Just above what makes nodes share: a rate that is no rate would be off by the length of the window.
    let moved = |window_ns, sharing_accesses_s| {
        let mut options = Options::of(System::Asymsched);
        options.window_ns = window_ns;
        options.planner.asymsched.sharing_accesses_s = sharing_accesses_s;
        egeria_sim::run(&machine, &load, &options).unwrap().moves > 0
    };
    let accesses_s = {
        let outcome = egeria_sim::run(&machine, &load, &Options::of(System::Off)).unwrap();
        let first = &outcome.windows[0].lanes;
        let over = first.iter().filter(|lane| lane.bytes_s > 0.0);
        over.map(|lane| lane.bytes_s).fold(f64::INFINITY, f64::min) / 64.0
    };
    for window_ns in [500_000_000, 2_000_000_000] {
        assert!(moved(window_ns, accesses_s * 0.9), "{window_ns}");
        assert!(!moved(window_ns, accesses_s * 4.0), "{window_ns}");
    }
}

#[test]
fn copies_take_bandwidth_and_are_in_the_account() {
    let machine = Machine::profile("optane-4s-emulated").unwrap();
    let mut load = workload(vec![threads("reader", 16, 0, 0, of(1.0, 16384))]);
    load.threads[0].start_node = None;
    (load.files[0].count, load.files[0].bytes) = (16, 2_000_000_000);
    load.seconds = 20.0;
    load.warm_up_seconds = 0.0;
    let outcome = egeria_sim::run(&machine, &load, &Options::of(System::All)).unwrap();
    let copying = outcome.windows.iter().find(|window| {
        let written = window.nodes.iter().map(|node| node.written_bytes_s);
        written.fold(0.0, f64::max) > 0.0
    });
    // Nobody writes but those who copy.
    let copying = copying.expect("something is copied");
    let before = &outcome.windows[0];
    let read = |window: &egeria_sim::WindowOutcome| -> f64 { window.operations_s };
    assert!(read(copying) < read(before) * 1.5, "copying is not free");
}

#[test]
fn what_cannot_be_followed_is_refused_in_one_line() {
    let machine = Machine::profile("odin-8s").unwrap();
    let refused = |load: &egeria_sim::Workload, options: &Options, words: &str| {
        let line = egeria_sim::run(&machine, load, options)
            .unwrap_err()
            .to_string();
        assert_eq!(line.lines().count(), 1);
        assert!(line.contains(words), "{line}");
    };
    let off = options(System::Off);
    let one = || workload(vec![threads("a", 4, 0, 0, of(1.0, 4096))]);
    let mut long = one();
    long.seconds = 1e6;
    refused(&long, &off, "1000000 windows; lengthen the window");
    let short = Options {
        window_ns: 1_000_000,
        ..off.clone()
    };
    let mut load = one();
    load.seconds = 200.0;
    refused(&load, &short, "200000 windows");
    let groups = (0..100).map(|number| {
        let phase = Phase {
            seconds: Some(1e-4 + f64::from(number) * 1e-6),
            ..of(1.0, 4096)
        };
        threads(&format!("g{number}"), 1, 0, 0, phase)
    });
    let mut busy = workload(groups.collect());
    busy.seconds = 600.0;
    refused(
        &busy,
        &off,
        "steps of computing; shorten seconds, lengthen phases",
    );
    let mut many = one();
    (
        many.threads[0].count,
        many.files[0].count,
        many.files[0].bytes,
    ) = (65_536, 65_536, 4096);
    let mut wide = nodes(&[1; 64], &memory(MemoryKind::Dram, 4e9, 1e9));
    for node in &mut wide.nodes {
        node.hardware.memories = vec![node.hardware.memories[0].clone(); 8];
    }
    let line = egeria_sim::run(&wide, &many, &off).unwrap_err().to_string();
    assert!(line.contains("figures of files and threads"), "{line}");
}

#[test]
fn threads_begin_where_there_are_cores() {
    let machine = nodes(&[4, 0], &memory(MemoryKind::Dram, 4e9, 1e9));
    let load = workload(vec![threads("a", 1, 1, 0, of(1.0, 4096))]);
    let line = egeria_sim::run(&machine, &load, &options(System::Off)).unwrap_err();
    assert!(
        line.to_string().contains("node 1 of optane-2s has no CPUs"),
        "{line}"
    );
    // Data may be there.
    let load = workload(vec![threads("a", 1, 0, 1, of(1.0, 4096))]);
    assert!(egeria_sim::run(&machine, &load, &options(System::Off)).is_ok());
    let medium = memory(MemoryKind::Dram, 4e9, 1e9);
    close(
        medium
            .medium()
            .undisturbed_ns(4096, AccessKind::Read, true, 1),
        100.0 + 4096.0,
    );
}

#[test]
fn heaps_fill_memory_and_files_fill_persistent_memory() {
    let mut machine = nodes(&[4], &memory(MemoryKind::Dram, 4e9, 1e9));
    machine.nodes[0].hardware.memories[0].bytes = 4_000_000_000;
    let mut persistent = memory(MemoryKind::Persistent, 4e9, 1e9);
    persistent.bytes = 100_000_000_000;
    machine.nodes[0].hardware.memories.push(persistent);
    let get = |bytes, medium| {
        let mut load = workload(vec![threads("a", 1, 0, 0, of(1.0, 4096))]);
        (load.files[0].bytes, load.files[0].medium) = (bytes, medium);
        egeria_sim::run(&machine, &load, &options(System::Off))
    };
    assert!(get(50_000_000_000, MediumKind::Storage).is_ok());
    let line = get(50_000_000_000, MediumKind::Memory)
        .unwrap_err()
        .to_string();
    assert!(
        line.contains("the memory of optane-2s has 4000000000"),
        "{line}"
    );
    let line = get(200_000_000_000, MediumKind::Storage)
        .unwrap_err()
        .to_string();
    assert!(line.contains("the persistent memory of"), "{line}");
}

#[test]
fn a_node_may_have_cores_and_no_memory() {
    let mut machine = nodes(&[4, 4], &memory(MemoryKind::Dram, 4e9, 1e9));
    machine.nodes[1].hardware = Hardware::default();
    let mut load = workload(vec![threads("a", 8, 0, 0, of(0.5, 4096))]);
    load.threads[0].start_node = None;
    for system in System::ALL {
        let outcome = egeria_sim::run(&machine, &load, &Options::of(system)).unwrap();
        assert!(outcome.operations_s > 0.0, "{system}");
        assert!(
            outcome
                .windows
                .iter()
                .all(|window| window.nodes[1].memories.is_empty())
        );
    }
    load.files[0].node = Some(NodeId(1));
    let line = egeria_sim::run(&machine, &load, &options(System::Off)).unwrap_err();
    assert!(line.to_string().contains("files are on node 1"), "{line}");
}

/// As many nodes as a machine may have, with gaps in their numbers; some have no CPUs, one has no memory.
#[test]
fn sixty_four_nodes_are_decided_about() {
    let mut cores = [2; 64];
    (cores[7], cores[63]) = (0, 0);
    let mut machine = nodes(&cores, &memory(MemoryKind::Dram, 10e9, 5e9));
    for (node, id) in machine.nodes.iter_mut().zip((0..).step_by(4)) {
        node.id = NodeId(id);
    }
    machine.nodes[62].hardware.memories.clear();
    let heap = |name: &str, node: u16| FileGroup {
        name: name.to_owned(),
        count: 2,
        bytes: 1_000_000,
        node: Some(NodeId(node)),
        medium: MediumKind::Memory,
        ..FileGroup::default()
    };
    let program = |name: &str, node: u16| ThreadGroup {
        name: name.to_owned(),
        count: 2,
        files: name.to_owned(),
        start_node: Some(NodeId(node)),
        phases: vec![Phase {
            read_share: 1.0,
            request_bytes: 64,
            ..Phase::default()
        }],
        ..ThreadGroup::default()
    };
    let load = Workload {
        seconds: 12.0,
        ..workload(vec![
            (heap("far", 252), program("far", 0)),
            (heap("near", 248 - 4), program("near", 248)),
        ])
    };
    for system in System::ALL {
        let options = Options {
            allocation: Allocation::InPlace,
            ..Options::of(system)
        };
        let outcome = egeria_sim::run(&machine, &load, &options).unwrap();
        assert!(outcome.operations_s > 0.0, "{system}");
        assert_eq!(outcome.windows[0].nodes.len(), 64);
    }
}
