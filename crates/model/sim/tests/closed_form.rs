//! Cases whose answer a pencil gives.

use crate::common;
use common::*;
use egeria_machine::{AccessKind, Interconnect, Link, NodeId};
use egeria_policy::planner::System;
use egeria_sim::{Allocation, Phase};

#[test]
fn a_thread_alone_does_one_operation_after_the_other() {
    let speed = plain(4);
    let machine = machine(2, &speed);
    let local = rate(&machine, vec![threads("a", 1, 0, 0, reading(700.0))]);
    close(local, 1.0 / (700e-9 + read_s(&speed, false)));
    let remote = rate(&machine, vec![threads("a", 1, 1, 0, reading(700.0))]);
    close(remote, 1.0 / (700e-9 + read_s(&speed, true)));
}

#[test]
fn waiting_for_others_is_longer_and_leaves_the_core() {
    let speed = plain(1);
    let machine = machine(1, &speed);
    let phase = Phase {
        idle_ns: 100_000.0,
        ..reading(1000.0)
    };
    let one = 1.0 / (101e-6 + read_s(&speed, false));
    close(rate(&machine, vec![threads("a", 1, 0, 0, phase)]), one);
    close(
        rate(&machine, vec![threads("a", 10, 0, 0, phase)]),
        10.0 * one,
    );
}

#[test]
fn more_threads_than_cores_get_the_cores_and_no_more() {
    let speed = plain(4);
    let phase = reading(100_000.0);
    let one = 1.0 / (100e-6 + read_s(&speed, false));
    for (count, expected) in [(3, 3.0), (4, 4.0), (12, 4.0)] {
        let machine = machine(1, &speed);
        close(
            rate(&machine, vec![threads("a", count, 0, 0, phase)]),
            expected * one,
        );
    }
}

#[test]
fn one_bottleneck_gives_its_capacity_whoever_asks() {
    let speed = plain(16);
    let machine = machine(2, &speed);
    let full = 6.8e9 / 4096.0;
    close(
        rate(&machine, vec![threads("a", 16, 0, 0, reading(0.0))]),
        full,
    );
    // From the other node a medium yields its share for remote accesses.
    close(
        rate(&machine, vec![threads("a", 16, 1, 0, reading(0.0))]),
        full * 0.654,
    );
}

#[test]
fn threads_that_always_come_back_get_what_the_profile_says() {
    let machine = optane();
    let speed = machine.emulated.clone().unwrap().nodes[0].clone();
    for count in [1, 2, 4] {
        for remote in [false, true] {
            let on = u16::from(remote);
            let found = rate(&machine, vec![threads("a", count, on, 0, reading(0.0))]);
            let said =
                speed.expected_bytes_s(4096, AccessKind::Read, remote, count as u32) / 4096.0;
            let ratio = found / said;
            assert!((0.999..1.001).contains(&ratio), "{count} {remote}: {ratio}");
        }
    }
}

#[test]
fn reads_and_writes_share_a_medium_each_for_its_own_time() {
    let speed = plain(16);
    let machine = machine(1, &speed);
    let mixed = Phase {
        read_share: 0.5,
        ..reading(0.0)
    };
    let found = rate(&machine, vec![threads("a", 16, 0, 0, mixed)]);
    close(found, 1.0 / (0.5 * 4096.0 / 6.8e9 + 0.5 * 4096.0 / 1.85e9));
}

fn linked(nodes: usize, links: &[(u16, u16, f64)]) -> egeria_machine::Machine {
    // Media so fast that links decide.
    let speed = egeria_machine::EmulatedNode {
        read_bytes_s: 1e12,
        read_stream_bytes_s: 1e12,
        remote_read_bandwidth_factor: 1.0,
        ..plain(8)
    };
    let mut machine = machine(nodes, &speed);
    let link = |(from, to, bytes_s): &(u16, u16, f64)| Link {
        from: NodeId(*from),
        to: NodeId(*to),
        bytes_s: *bytes_s,
        back_bytes_s: Some(*bytes_s),
        latency_ns: 0.0,
    };
    machine.interconnect = Interconnect {
        links: links.iter().map(link).collect(),
        routes: Vec::new(),
    };
    machine
}

#[test]
fn two_flows_on_one_link_share_it() {
    let machine = linked(2, &[(0, 1, 1e9)]);
    let both = rate(
        &machine,
        vec![
            threads("a", 4, 1, 0, reading(0.0)),
            threads("b", 4, 1, 0, reading(0.0)),
        ],
    );
    close(both, 1e9 / 4096.0);
    // The other way is another lane.
    let opposite = rate(
        &machine,
        vec![
            threads("a", 4, 1, 0, reading(0.0)),
            threads("b", 4, 0, 1, reading(0.0)),
        ],
    );
    close(opposite, 2e9 / 4096.0);
}

#[test]
fn in_a_ring_a_long_way_takes_from_every_link_on_it() {
    // 0 - 1 - 2 - 3 - 0: from 0 to 2 over 1, and one flow on each link of that way.
    let machine = linked(4, &[(0, 1, 1e9), (1, 2, 1e9), (2, 3, 1e9), (3, 0, 1e9)]);
    let long = threads("long", 8, 2, 0, reading(0.0));
    let first = threads("first", 8, 1, 0, reading(0.0));
    let second = threads("second", 8, 2, 1, reading(0.0));
    // Sixteen threads on the eight cores of node 2 do not matter: links are the bottleneck.
    let all = rate(&machine, vec![long, first, second]);
    // Each flow half of each link; three flows cross four times.
    close(all, 1.5e9 / 4096.0);
}

#[test]
fn what_is_written_at_random_replaces_what_was_there() {
    let speed = plain(4);
    let machine = machine(2, &speed);
    let (mut files, mut writers) = threads(
        "a",
        1,
        1,
        0,
        Phase {
            read_share: 0.5,
            ..reading(0.0)
        },
    );
    files.bytes = 1_000_000_000;
    writers.pinned = true;
    let mut workload = workload(vec![(files, writers)]);
    workload.warm_up_seconds = 0.0;
    let outcome = egeria_sim::run(&machine, &workload, &options(System::Off)).unwrap();
    let first = &outcome.windows[0].nodes;
    let last = &outcome.windows.last().unwrap().nodes;
    assert!(first[0].read_bytes_s > first[1].read_bytes_s);
    // By then the file was overwritten several times, each time a share 1 / e of the rest is left.
    let left = last[0].read_bytes_s / (last[0].read_bytes_s + last[1].read_bytes_s);
    let windows = &outcome.windows[..outcome.windows.len() - 1];
    let written: f64 = windows
        .iter()
        .map(|window| window.nodes[1].written_bytes_s)
        .sum();
    let expected = (-written / 1e9).exp();
    assert!((left / expected).ln().abs() < 0.5, "{left} for {expected}");
}

#[test]
fn data_goes_where_the_allocation_says() {
    let machine = machine(2, &plain(4));
    let writing = Phase {
        read_share: 0.0,
        ..reading(0.0)
    };
    let cases = [
        (Allocation::Local, 0.0),
        (Allocation::Node(0), 1.0),
        (Allocation::Spread, 0.5),
    ];
    for (allocation, on_node_0) in cases {
        let workload = workload(vec![threads("a", 2, 1, 1, writing)]);
        let options = egeria_sim::Options {
            allocation,
            ..options(System::Off)
        };
        let outcome = egeria_sim::run(&machine, &workload, &options).unwrap();
        let nodes = &outcome.windows.last().unwrap().nodes;
        let all = nodes[0].written_bytes_s + nodes[1].written_bytes_s;
        close(nodes[0].written_bytes_s / all, on_node_0);
        close(outcome.local_share, 1.0 - on_node_0);
    }
}

#[test]
fn a_lock_lets_one_thread_of_its_table_on_at_a_time() {
    let speed = plain(8);
    let machine = machine(1, &speed);
    let phase = Phase {
        serial_ns: 2_000.0,
        ..reading(10_000.0)
    };
    let one = 1.0 / (10e-6 + read_s(&speed, false));
    for (count, expected) in [(1, one), (2, 2.0 * one), (8, 1.0 / 2e-6)] {
        let found = rate(&machine, vec![threads("a", count, 0, 0, phase)]);
        close(found, expected);
    }
    // Two tables have a lock each.
    let both = ["a", "b"].map(|name| threads(name, 8, 0, 0, phase));
    let found = rate(&machine, both.to_vec());
    assert!(found > 0.5e6 && found <= 1e6, "{found}");
}

#[test]
fn bytes_written_beside_the_program_s_take_the_medium_s_time() {
    let speed = plain(16);
    let machine = machine(1, &speed);
    let writing = |write_overhead| Phase {
        read_share: 0.0,
        write_overhead,
        ..reading(0.0)
    };
    let full = rate(&machine, vec![threads("a", 16, 0, 0, writing(0.0))]);
    let half = rate(&machine, vec![threads("a", 16, 0, 0, writing(1.0))]);
    close(half, full / 2.0);
    let reads = Phase {
        write_overhead: 1.0,
        ..reading(0.0)
    };
    let undisturbed = rate(&machine, vec![threads("a", 16, 0, 0, reading(0.0))]);
    close(
        rate(&machine, vec![threads("a", 16, 0, 0, reads)]),
        undisturbed,
    );
}
