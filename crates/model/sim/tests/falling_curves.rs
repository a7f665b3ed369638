//! Files in memory that gives less to many threads: fewer threads at once get more, whatever the kind of memory.

use crate::common::*;
use egeria_machine::{Machine, MemoryKind};
use egeria_policy::planner::System;
use egeria_sim::{MediumKind, Options, Outcome, Phase, Workload};

/// One node with one memory of this kind, whose bandwidth falls with more than eight threads.
pub(crate) fn machine(kind: MemoryKind, falls: bool) -> Machine {
    let mut machine = Machine::profile("xeon-2s-dram").unwrap();
    for node in &mut machine.nodes {
        let memory = &mut node.hardware.memories[0];
        memory.kind = kind;
        let many = if falls { 0.3 } else { 1.0 };
        memory.write_curve = vec![(1, 1.0), (8, 1.0), (12, many)];
    }
    machine
}

/// Threads that write on node 0.
pub(crate) fn writers(count: u64) -> Workload {
    let phase = Phase {
        read_share: 0.0,
        request_bytes: 65536,
        at_once: true,
        ..Phase::default()
    };
    let mut workload = workload(vec![threads("writers", count, 0, 0, phase)]);
    (workload.seconds, workload.warm_up_seconds) = (60.0, 30.0);
    workload.threads[0].pinned = true;
    workload
}

fn run(machine: &Machine, system: System) -> Outcome {
    egeria_sim::run(machine, &writers(20), &Options::of(system)).unwrap()
}

/// The same in memory of the program, which asks no one for admission.
fn run_unasked(machine: &Machine, count: u64, mba: &str) -> Outcome {
    let mut workload = writers(count);
    workload.files[0].medium = MediumKind::Memory;
    let mut options = Options::of(System::Off);
    options.planner.set("stages.mba", mba).unwrap();
    egeria_sim::run(machine, &workload, &options).unwrap()
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

#[test]
fn programs_that_do_not_ask_are_bounded_to_their_share() {
    for kind in [MemoryKind::Dram, MemoryKind::Expander] {
        let machine = machine(kind, true);
        let off = run_unasked(&machine, 20, "off");
        let on = run_unasked(&machine, 20, "on");
        let gain = on.operations_s / off.operations_s;
        assert!(gain > 1.5, "{kind:?}: {gain}");
        let steps: Vec<&String> = on.windows.iter().flat_map(|window| &window.steps).collect();
        let [step] = &steps[..] else {
            panic!("{steps:?}");
        };
        assert!(step.contains("33 % on node 0"), "{step}");
        // None makes more than its share of the requests that it would make alone.
        let alone = run_unasked(&machine, 1, "on").operations_s;
        let each = on.operations_s / 20.0;
        assert!(each <= 0.334 * alone * (1.0 + 1e-6), "{each} {alone}");
    }
}

#[test]
fn programs_are_not_bounded_where_it_does_not_fall() {
    for (falls, count) in [(false, 20), (true, 8)] {
        let machine = machine(MemoryKind::Dram, falls);
        let (off, on) = (
            run_unasked(&machine, count, "off"),
            run_unasked(&machine, count, "on"),
        );
        close(on.operations_s, off.operations_s);
    }
}
