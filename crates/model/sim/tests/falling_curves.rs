//! Files in memory that gives less to many threads: fewer threads at once get more, whatever the kind of memory.

use crate::common::*;
use egeria_machine::{Machine, MemoryKind};
use egeria_policy::planner::System;
use egeria_sim::{Options, Outcome, Phase};

/// One node with one memory of this kind, whose bandwidth falls with more than eight threads.
fn machine(kind: MemoryKind, falls: bool) -> Machine {
    let mut machine = Machine::profile("xeon-2s-dram").unwrap();
    for node in &mut machine.nodes {
        let memory = &mut node.hardware.memories[0];
        memory.kind = kind;
        let many = if falls { 0.3 } else { 1.0 };
        memory.write_curve = vec![(1, 1.0), (8, 1.0), (12, many)];
    }
    machine
}

fn run(machine: &Machine, system: System) -> Outcome {
    let phase = Phase {
        read_share: 0.0,
        request_bytes: 65536,
        at_once: true,
        ..Phase::default()
    };
    let mut workload = workload(vec![threads("writers", 20, 0, 0, phase)]);
    (workload.seconds, workload.warm_up_seconds) = (60.0, 30.0);
    workload.threads[0].pinned = true;
    egeria_sim::run(machine, &workload, &Options::of(system)).unwrap()
}

#[test]
fn a_limit_helps_where_the_curve_falls() {
    for kind in [MemoryKind::Dram, MemoryKind::Expander] {
        let machine = machine(kind, true);
        let gain =
            run(&machine, System::All).operations_s / run(&machine, System::Off).operations_s;
        assert!(gain > 1.5, "{kind:?}: {gain}");
    }
}

#[test]
fn nothing_is_limited_where_it_does_not() {
    let machine = machine(MemoryKind::Dram, false);
    let (off, all) = (run(&machine, System::Off), run(&machine, System::All));
    close(all.operations_s, off.operations_s);
}
