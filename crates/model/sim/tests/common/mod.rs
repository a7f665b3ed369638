//! Machines and workloads to try.
#![allow(dead_code)] // Every test file uses a part.

use egeria_machine::{AccessKind, EmulatedNode, Machine};
use egeria_policy::planner::System;
use egeria_sim::{Allocation, FileGroup, Options, Phase, ThreadGroup, Workload};

pub const SECOND_NS: u64 = 1_000_000_000;

pub fn optane() -> Machine {
    Machine::profile("optane-2s").unwrap()
}

/// A speed that no curve and no cache disturbs.
pub fn plain(cores: u32) -> EmulatedNode {
    EmulatedNode {
        cores,
        read_curve: vec![(1, 1.0)],
        write_curve: vec![(1, 1.0)],
        llc_bytes: 0,
        llc_latency_ns: 0.0,
        llc_read_bytes_s: 0.0,
        ..optane().emulated.unwrap().nodes[0].clone()
    }
}

/// Nodes of that speed.
pub fn machine(nodes: usize, speed: &EmulatedNode) -> Machine {
    let mut machine = optane();
    let first = machine.nodes[0].clone();
    machine.nodes = (0..nodes)
        .map(|index| egeria_machine::Node {
            id: egeria_machine::NodeId(index as u16),
            ..first.clone()
        })
        .collect();
    machine.distances = (0..nodes)
        .map(|from| {
            (0..nodes)
                .map(|to| if from == to { 10 } else { 20 })
                .collect()
        })
        .collect();
    machine.emulated.as_mut().unwrap().nodes = vec![speed.clone(); nodes];
    machine
}

pub fn options(system: System) -> Options {
    Options {
        // Where data goes is each test's own.
        allocation: Allocation::Local,
        ..Options::of(system)
    }
}

pub fn reading(think_ns: f64) -> Phase {
    Phase {
        read_share: 1.0,
        request_bytes: 4096,
        think_ns,
        ..Phase::default()
    }
}

/// Threads on a node, each with a file of its own on another.
pub fn threads(
    name: &str,
    count: u64,
    on: u16,
    data_on: u16,
    phase: Phase,
) -> (FileGroup, ThreadGroup) {
    let files = FileGroup {
        name: name.to_owned(),
        count,
        bytes: 4_000_000_000,
        node: Some(egeria_machine::NodeId(data_on)),
        ..FileGroup::default()
    };
    let threads = ThreadGroup {
        name: name.to_owned(),
        count,
        files: name.to_owned(),
        start_node: Some(egeria_machine::NodeId(on)),
        phases: vec![phase],
        ..ThreadGroup::default()
    };
    (files, threads)
}

pub fn workload(groups: Vec<(FileGroup, ThreadGroup)>) -> Workload {
    let (files, threads) = groups.into_iter().unzip();
    Workload {
        name: "test".to_owned(),
        seconds: 10.0,
        warm_up_seconds: 2.0,
        files,
        threads,
    }
}

/// Operations/s of the workload when nobody moves.
pub fn rate(machine: &Machine, groups: Vec<(FileGroup, ThreadGroup)>) -> f64 {
    let workload = workload(groups);
    egeria_sim::run(machine, &workload, &options(System::Off))
        .unwrap()
        .operations_s
}

/// What one read of 4 KiB takes alone, s.
pub fn read_s(speed: &EmulatedNode, remote: bool) -> f64 {
    speed.undisturbed_ns(4096, AccessKind::Read, remote, 1) / 1e9
}

pub fn close(found: f64, expected: f64) {
    let error = (found - expected).abs() / expected.abs().max(1e-12);
    assert!(error < 1e-6, "{found} for {expected}");
}
