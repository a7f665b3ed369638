//! An expander as a second tier: memory that is used little makes room for memory that is used much.

use crate::common;
use common::*;
use egeria_machine::{Machine, NodeId};
use egeria_policy::planner::System;
use egeria_sim::{FileGroup, MediumKind, Options, Phase, ThreadGroup, Workload};

const GB: u64 = 1_000_000_000;

/// Two sockets with an expander each, of 8 GB per node.
pub(crate) fn machine() -> Machine {
    let mut machine = Machine::profile("epyc-2s-cxl").unwrap();
    for node in &mut machine.nodes {
        node.memory_bytes = 8 * GB;
        node.hardware.memories[0].bytes = 8 * GB;
    }
    machine
}

/// A program of socket 0, its memory on one node.
fn program(name: &str, bytes: u64, memory: u16, think_ns: f64) -> (FileGroup, ThreadGroup) {
    let phase = Phase {
        request_bytes: 64,
        ..reading(think_ns)
    };
    let (mut files, mut threads) = threads(name, 8, 0, memory, phase);
    files.count = 1;
    files.bytes = bytes;
    files.medium = MediumKind::Memory;
    files.node = Some(NodeId(memory));
    threads.shared = true;
    threads.pinned = true;
    (files, threads)
}

fn full_node() -> Workload {
    let mut workload = workload(vec![
        program("idle", 15 * GB / 2, 0, 10_000_000.0),
        program("busy", 3 * GB, 2, 100.0),
    ]);
    workload.seconds = 200.0;
    workload.warm_up_seconds = 100.0;
    workload
}

/// What is used little and what is used much change roles.
pub(crate) fn changing() -> Workload {
    let mut workload = full_node();
    let phase = |group: usize| Phase {
        seconds: Some(40.0),
        ..workload.threads[group].phases[0]
    };
    let (idle, busy) = (phase(0), phase(1));
    workload.threads[0].phases = vec![idle, busy];
    workload.threads[1].phases = vec![busy, idle];
    (workload.seconds, workload.warm_up_seconds) = (120.0, 1.0);
    workload
}

#[test]
fn what_is_used_much_takes_the_place_of_what_is_used_little() {
    let run = |system| {
        let options = Options {
            migration_s_per_gb: 0.3,
            ..Options::of(system)
        };
        egeria_sim::run(&machine(), &full_node(), &options).unwrap()
    };
    let (off, all) = (run(System::Off), run(System::All));
    let busy = all.groups[1].operations_s / off.groups[1].operations_s;
    assert!(busy > 1.3, "{busy}");
    let idle = all.groups[0].operations_s / off.groups[0].operations_s;
    assert!(idle > 0.99, "{idle}");
    let steps: Vec<&String> = all
        .windows
        .iter()
        .flat_map(|window| &window.steps)
        .collect();
    let first = |words: &str| steps.iter().position(|step| step.contains(words));
    let down = first("the least used memory makes room").expect("a demotion");
    let up = first("the most used memory comes back").expect("a promotion");
    assert!(down < up, "{steps:?}");
    // Each once: nothing goes back.
    assert!(steps.len() < 6, "{steps:?}");
}
