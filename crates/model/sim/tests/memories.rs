//! Memories beside each other, and what the systems that care for them do.

use crate::common;
use common::*;
use egeria_machine::{
    AccessKind, Controller, Hardware, Interconnect, Link, Machine, Memory, MemoryKind, NodeId,
};
use egeria_policy::planner::System;
use egeria_sim::{
    Allocation, FileGroup, Layout, MediumKind, Options, Outcome, Pattern, Phase, ThreadGroup,
    Workload,
};

/// A memory that nothing but its bandwidth bounds.
fn memory(kind: MemoryKind, bytes_s: f64) -> Memory {
    Memory {
        kind,
        read_bytes_s: bytes_s,
        write_bytes_s: bytes_s,
        read_stream_bytes_s: bytes_s,
        write_stream_bytes_s: bytes_s,
        read_latency_ns: 100.0,
        write_latency_ns: 100.0,
        granularity_bytes: 64,
        ..optane().emulated.unwrap().nodes[0].as_memory()
    }
    .without_distance()
}

trait Plain {
    fn without_distance(self) -> Self;
}

impl Plain for Memory {
    fn without_distance(self) -> Memory {
        Memory {
            remote_latency_factor: 1.0,
            remote_read_bandwidth_factor: 1.0,
            remote_write_bandwidth_factor: 1.0,
            read_curve: Vec::new(),
            write_curve: Vec::new(),
            ..self
        }
    }
}

/// Nodes of so many cores, each with these memories behind one controller.
fn nodes(count: usize, cores: u16, memories: &[Memory], queue_lines: Option<u32>) -> Machine {
    let mut machine = machine(count, &plain(1));
    machine.emulated = None;
    for (index, node) in machine.nodes.iter_mut().enumerate() {
        let first = index as u16 * cores;
        node.cpus = (first..first + cores).map(egeria_machine::CpuId).collect();
        node.memory_bytes = 0;
        let controller = queue_lines.map(|queue_lines| Controller { id: 0, queue_lines });
        node.hardware = Hardware {
            memories: memories.to_vec(),
            controllers: controller.into_iter().collect(),
            ..Hardware::default()
        };
    }
    machine
}

fn outcome(machine: &Machine, workload: &Workload, system: System) -> Outcome {
    egeria_sim::run(machine, workload, &Options::of(system)).unwrap()
}

fn streaming(read_share: f64, request_bytes: u64) -> Phase {
    Phase {
        read_share,
        request_bytes,
        pattern: Pattern::Sequential,
        ..Phase::default()
    }
}

fn in_memory(mut group: (FileGroup, ThreadGroup)) -> (FileGroup, ThreadGroup) {
    group.0.medium = MediumKind::Memory;
    group
}

#[test]
fn files_are_in_persistent_memory_and_memory_is_dram() {
    let machine = nodes(
        1,
        8,
        &[
            memory(MemoryKind::Dram, 50e9),
            memory(MemoryKind::Persistent, 5e9),
        ],
        None,
    );
    let workload = workload(vec![
        threads("file", 1, 0, 0, streaming(1.0, 1 << 20)),
        in_memory(threads("memory", 1, 0, 0, streaming(1.0, 1 << 20))),
    ]);
    let outcome = outcome(&machine, &workload, System::Off);
    let one = |bytes_s: f64| (1 << 20) as f64 / (100e-9 + (1 << 20) as f64 / bytes_s);
    close(outcome.groups[0].bytes_s, one(5e9));
    close(outcome.groups[1].bytes_s, one(50e9));
    let memories = &outcome.windows[0].nodes[0].memories;
    close(memories[0].read_bytes_s, one(50e9));
    close(memories[1].read_bytes_s, one(5e9));
}

#[test]
fn slow_memory_that_fills_the_queue_holds_up_fast_memory() {
    let dram = Memory {
        read_lines_in_flight: Some(10),
        ..memory(MemoryKind::Dram, 50e9)
    };
    let persistent = Memory {
        read_lines_in_flight: Some(16),
        ..memory(MemoryKind::Persistent, 3.2e9)
    };
    let both = [dram, persistent];
    let copy = || in_memory(threads("copy", 1, 0, 0, streaming(1.0, 1 << 20)));
    let get = |readers: u64, lines: Option<u32>| {
        let machine = nodes(1, 16, &both, lines);
        let readers = threads("pm", readers, 0, 0, streaming(1.0, 1 << 20));
        let workload = workload(vec![readers, copy()]);
        outcome(&machine, &workload, System::Off).groups[1].bytes_s
    };
    let alone = get(1, Some(1000));
    // 4 * 16 + 10 lines fit, so nothing waits.
    close(get(4, Some(74)), alone);
    // One thread's 10 lines are its own bound with the time that a line waits: fewer lines than are on their way
    // stand in the queue or are being served for 100 ns each, the others wait until 50,000,000 lines/s of persistent
    // memory and the copy's own are through.
    for (readers, queue) in [(8, 74.0), (12, 74.0), (14, 100.0)] {
        let found = get(readers, Some(queue as u32)) / 64.0;
        let in_service = (50e6 + found) * 100e-9;
        let waiting = readers as f64 * 16.0 + 10.0 - queue - in_service;
        let wait_s = waiting / (50e6 + found);
        let expected = 10.0 / (100e-9 + wait_s);
        let ratio = found / expected;
        assert!((0.999..1.001).contains(&ratio), "{readers}: {ratio}");
        assert!(found * 64.0 < alone / 4.0, "{readers}: {found}");
        // Behind controllers of their own they do not meet.
        close(get(readers, None), alone);
    }
}

#[test]
fn turns_keep_fast_memory_fast() {
    let machine = Machine::profile("optane-1s").unwrap();
    let with = |writers: u64, system: System| {
        let mut workload = workload(vec![
            threads("pm", writers, 0, 0, streaming(0.0, 4096)),
            in_memory(threads("copy", 1, 0, 0, streaming(0.5, 256 << 10))),
        ]);
        workload.warm_up_seconds = 5.0;
        let outcome = outcome(&machine, &workload, system);
        (outcome.groups[0].bytes_s, outcome.groups[1].bytes_s)
    };
    let (_, alone) = with(1, System::Off);
    let (writes, collapsed) = with(14, System::Off);
    let (turns, kept) = with(14, System::Pats);
    assert!(collapsed < alone / 5.0);
    assert!(kept > alone * 0.9 && turns > writes);
    // Requests of 256 bytes do not wait for turns (PATS §IV), so they help nobody.
    let small = |system: System| {
        let workload = workload(vec![
            threads("pm", 14, 0, 0, streaming(0.0, 256)),
            in_memory(threads("copy", 1, 0, 0, streaming(0.5, 256 << 10))),
        ]);
        let mut options = Options::of(system);
        options.planner.pats.paper_bypass = true;
        egeria_sim::run(&machine, &workload, &options).unwrap()
    };
    close(
        small(System::Pats).groups[1].bytes_s,
        small(System::Off).groups[1].bytes_s,
    );
}

#[test]
fn a_medium_moves_whole_grains_for_random_accesses() {
    let grains = Memory {
        granularity_bytes: 256,
        ..memory(MemoryKind::Persistent, 4e9)
    };
    let machine = nodes(1, 16, &[grains], None);
    let get = |pattern, bytes| {
        let phase = Phase {
            pattern,
            ..streaming(1.0, bytes)
        };
        rate(&machine, vec![threads("a", 16, 0, 0, phase)]) * bytes as f64
    };
    close(get(Pattern::Sequential, 64), 4e9);
    close(get(Pattern::Random, 64), 1e9);
    close(get(Pattern::Random, 384), 3e9);
    close(get(Pattern::Random, 4096), 4e9);
}

#[test]
fn a_line_that_nodes_take_from_each_other_writes_the_directory() {
    let with = |directory_write_share| Memory {
        write_bytes_s: 1e9,
        directory_write_share,
        ..memory(MemoryKind::Persistent, 4e9)
    };
    let get = |share: f64, homes: &[u16]| {
        let machine = nodes(3, 16, &[with(share)], None);
        let reads = streaming(1.0, 4096);
        let group = |on: &u16| threads(["a", "b", "c"][*on as usize], 16, *on, 0, reads);
        rate(&machine, homes.iter().map(group).collect()) * 4096.0
    };
    close(get(0.5, &[0]), 4e9);
    // One node that reads again and again has the lines.
    close(get(0.5, &[1]), 4e9);
    close(get(0.0, &[1, 2]), 4e9);
    close(get(0.5, &[1, 2]), 1.0 / (1.0 / 4e9 + 0.5 / 1e9));
}

#[test]
fn delegates_use_every_node_and_no_more_than_there_are() {
    // A delegate moves 1 GB/s; nodes have 4.
    let slow = Memory {
        read_stream_bytes_s: 1e9,
        read_latency_ns: 0.0,
        ..memory(MemoryKind::Persistent, 4e9)
    };
    let machine = nodes(4, 8, &[slow], None);
    let get = |count: u64, bytes: u64, delegates: u32| {
        let mut workload = workload(vec![threads("a", count, 0, 0, streaming(1.0, bytes))]);
        workload.files[0].node = None;
        let mut options = Options::of(System::Odin);
        (options.handover_ns, options.turn_ns) = (0.0, 0.0);
        options.planner.delegation.delegates_per_node = delegates;
        egeria_sim::run(&machine, &workload, &options)
            .unwrap()
            .bytes_s
    };
    let large = 4 << 20;
    // One thread has all nodes at work for it; many have no more than the delegates.
    close(get(1, large, 1), 4e9);
    close(get(8, large, 1), 4e9);
    close(get(1, large, 2), 8e9);
    // Operations of several threads come in each other's way, so a little is lost.
    let all = get(8, large, 8);
    assert!((0.97 * 16e9..=16e9).contains(&all), "{all}");
    // What is small goes directly, one thread at 1 GB/s.
    close(get(1, 4096, 2), 1e9);
}

#[test]
fn what_is_within_a_stripe_is_one_delegates() {
    let slow = Memory {
        write_stream_bytes_s: 1e9,
        write_latency_ns: 0.0,
        ..memory(MemoryKind::Persistent, 4e9)
    };
    let machine = nodes(4, 8, &[slow], None);
    let get = |bytes: u64| {
        let mut workload = workload(vec![threads("a", 1, 0, 0, streaming(0.0, bytes))]);
        workload.files[0].node = None;
        let mut options = Options::of(System::Odin);
        (options.handover_ns, options.turn_ns) = (500.0, 0.0);
        options.planner.delegation.delegates_per_node = 1;
        egeria_sim::run(&machine, &workload, &options)
            .unwrap()
            .groups[0]
            .operation_ns
    };
    close(get(4096), 500.0 + 4096.0);
    close(get(32 << 10), 500.0 + 32768.0);
    // Two stripes go to two nodes at once, twenty to all four, five each.
    close(get(64 << 10), 500.0 + 32768.0);
    close(get(640 << 10), 5.0 * (500.0 + 32768.0));
}

#[test]
fn data_written_in_place_stays_on_its_node() {
    let machine = nodes(2, 8, &[memory(MemoryKind::Persistent, 4e9)], None);
    let workload = workload(vec![
        threads("a", 2, 0, 1, streaming(0.5, 4096)),
        threads("b", 2, 1, 0, streaming(0.5, 4096)),
    ]);
    let options = Options {
        allocation: Allocation::InPlace,
        ..Options::of(System::Off)
    };
    let outcome = egeria_sim::run(&machine, &workload, &options).unwrap();
    assert_eq!(outcome.local_share, 0.0);
}

#[test]
fn striped_files_are_delegated_whatever_the_allocation() {
    let slow = Memory {
        read_stream_bytes_s: 1e9,
        read_latency_ns: 0.0,
        ..memory(MemoryKind::Persistent, 4e9)
    };
    let machine = nodes(4, 8, &[slow], None);
    let with = |layout| {
        let mut workload = workload(vec![threads("a", 1, 0, 0, streaming(1.0, 4 << 20))]);
        workload.files[0].layout = layout;
        let mut options = Options::of(System::Odin);
        (options.handover_ns, options.turn_ns) = (0.0, 0.0);
        options.allocation = Allocation::Local;
        options.planner.delegation.delegates_per_node = 1;
        egeria_sim::run(&machine, &workload, &options)
            .unwrap()
            .bytes_s
    };
    close(with(Layout::Local), 1e9);
    close(with(Layout::Striped), 4e9);
}

/// Links 0-1 as given, 2-3 wide, the others narrow.
pub(crate) fn lopsided(first_bytes_s: f64) -> Machine {
    let mut machine = nodes(4, 4, &[memory(MemoryKind::Dram, 100e9)], None);
    let link = |from: u16, to: u16, bytes_s: f64| Link {
        from: NodeId(from),
        to: NodeId(to),
        bytes_s,
        back_bytes_s: Some(bytes_s),
        latency_ns: 10.0,
    };
    machine.interconnect = Interconnect {
        links: vec![
            link(0, 1, first_bytes_s),
            link(2, 3, 4e9),
            link(0, 2, 1e9),
            link(1, 3, 1e9),
            link(0, 3, 1e9),
            link(1, 2, 1e9),
        ],
        routes: Vec::new(),
    };
    machine
}

/// A program on two nodes, its memory on both.
pub(crate) fn over_two(first: u16, second: u16, lockstep: bool) -> Workload {
    let (mut files, mut threads) = in_memory(threads("program", 8, first, 0, streaming(1.0, 4096)));
    files.count = 1;
    files.bytes = 100_000_000;
    files.node = None;
    files.nodes = vec![NodeId(first), NodeId(second)];
    threads.start_node = None;
    threads.start_nodes = files.nodes.clone();
    threads.shared = true;
    threads.lockstep = lockstep;
    let mut workload = workload(vec![(files, threads)]);
    workload.seconds = 60.0;
    workload.warm_up_seconds = 30.0;
    workload
}

#[test]
fn processes_go_where_links_are_wide_and_their_memory_follows() {
    let machine = lopsided(4e9);
    let wide = outcome(&machine, &over_two(0, 1, false), System::Asymsched);
    assert_eq!(wide.moves, 0);
    let narrow = outcome(&machine, &over_two(0, 2, false), System::Off);
    let placed = outcome(&machine, &over_two(0, 2, false), System::Asymsched);
    assert!(placed.moves > 0);
    assert!(narrow.operations_s < wide.operations_s * 0.5);
    close(placed.operations_s, wide.operations_s);
    let steps: Vec<&String> = placed.windows.iter().flat_map(|w| &w.steps).collect();
    assert!(
        steps
            .iter()
            .any(|step| step.contains("follows as it is accessed")),
        "{steps:?}"
    );
}

#[test]
fn memory_too_large_to_follow_accesses_is_moved_at_once() {
    // Only 2-3 is wide, so that both nodes are left.
    let machine = lopsided(1e9);
    let mut large = over_two(0, 1, false);
    large.files[0].bytes = 8_000_000_000;
    large.seconds = 200.0;
    large.warm_up_seconds = 150.0;
    let mut options = Options::of(System::Asymsched);
    options.migration_s_per_gb = 0.3;
    let placed = egeria_sim::run(&machine, &large, &options).unwrap();
    let full = |step: &String| step.contains("follows at once");
    let at = placed
        .windows
        .iter()
        .find(|window| window.steps.iter().any(full));
    let at = at.expect("a full migration");
    // 2 s after the move, when nine tenths still lie where they were (AsymSched §4.2).
    let moved = placed
        .windows
        .iter()
        .find(|window| !window.moves.is_empty());
    assert!(at.end_s >= moved.unwrap().end_s + 2.0 - 1e-9);
    // 8 GB take 2.4 s, in which the process runs on.
    let after = |s: f64| {
        let mut windows = placed.windows.iter();
        let window = windows.find(|window| window.end_s > at.end_s + s - 0.5);
        window.unwrap().operations_s
    };
    assert!(after(1.0) > 0.5 * at.operations_s);
    assert!(after(1.0) < after(4.0));
    let wide = outcome(&machine, &over_two(2, 3, false), System::Off);
    close(placed.operations_s, wide.operations_s);
}

#[test]
fn who_goes_in_lockstep_goes_as_fast_as_the_slowest() {
    let machine = lopsided(4e9);
    let mut apart = over_two(0, 2, true);
    apart.files[0].nodes = vec![NodeId(0)];
    let outcome = outcome(&machine, &apart, System::Off);
    // Four threads read over 1 GB/s, and the four at the memory wait for them.
    close(outcome.operations_s, 2.0 * 1e9 / 4096.0);
    let lanes = &outcome.windows[0].lanes;
    let busiest = lanes.iter().map(|lane| lane.share).fold(0.0, f64::max);
    close(busiest, 1.0);
}

#[test]
fn memory_without_cores_is_used_and_runs_nobody() {
    let mut machine = nodes(2, 8, &[memory(MemoryKind::Dram, 50e9)], None);
    let mut far = machine.nodes[1].clone();
    far.id = NodeId(2);
    far.cpus = Vec::new();
    far.hardware.memories = vec![memory(MemoryKind::Expander, 10e9)];
    machine.nodes.push(far);
    machine.distances = vec![vec![10, 20, 30], vec![20, 10, 30], vec![30, 30, 10]];
    for system in System::ALL {
        let mut group = in_memory(threads("a", 12, 0, 2, streaming(1.0, 1 << 20)));
        group.1.start_node = None;
        let outcome = outcome(&machine, &workload(vec![group]), system);
        for window in &outcome.windows {
            assert_eq!(window.nodes[2].threads, 0, "{system}");
            assert!(window.nodes[2].read_bytes_s <= 10e9 * (1.0 + 1e-9));
        }
        assert!(outcome.windows[0].nodes[2].read_bytes_s > 9.9e9, "{system}");
    }
}

#[test]
fn the_time_of_one_access_is_the_mediums() {
    let found = memory(MemoryKind::Dram, 50e9);
    let medium = found.medium();
    close(
        medium.undisturbed_ns(4096, AccessKind::Read, false, 1),
        100.0 + 4096.0 / 50.0,
    );
    let machine = nodes(1, 4, &[found], None);
    let outcome = outcome(
        &machine,
        &workload(vec![threads("a", 1, 0, 0, streaming(1.0, 4096))]),
        System::Off,
    );
    close(outcome.groups[0].operation_ns, 100.0 + 4096.0 / 50.0);
}
