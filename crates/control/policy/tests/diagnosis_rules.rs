//! What is wrong with programs, by the planner's own decision: a window for each kind of fault.

use crate::clusters::{GB, linked};
use crate::common::SECOND_NS;

use egeria_facts::{
    CpuSet, Facts, FileFacts, FileKey, FileUse, NodeAccesses, ProcessAccesses, ProcessKey,
    ThreadFacts, ThreadKey, Window,
};
use egeria_machine::{CpuId, Machine, NodeId};
use egeria_policy::diagnosis::{Finding, Look, Verdict, diagnose};
use egeria_policy::planner::System;
use egeria_policy::{Action, ActionKind, ProcessKept};

/// Two nodes of 4 cores with 8 GB each; nothing else is known.
fn machine() -> Machine {
    let mut machine = linked(2, &[]);
    for node in &mut machine.nodes {
        node.memory_bytes = 8 * GB;
    }
    machine
}

/// Threads on a node, the CPUs that their owner gave them, and the accesses of each node's memory by all of them, per
/// second.
struct On(u16, u32, std::ops::Range<u16>, [f64; 2]);

/// Adds a process with this much memory on each node, MB. Each of its threads keeps a CPU busy.
fn add(facts: &mut Facts, machine: &Machine, id: u32, on: &[On], resident_mb: [u64; 2]) {
    let mut process = ProcessAccesses {
        process: ProcessKey {
            process_id: id,
            start_ticks: 1,
        },
        running_ns: 1_000_000 * GB,
        accessors_known: true,
        ..ProcessAccesses::default()
    };
    let mut thread_id = id;
    for (node, resident_mb) in machine.nodes.iter().zip(resident_mb) {
        let own = on.iter().find(|on| on.0 == node.id.0);
        let allowed: CpuSet = own.map_or(0..8, |on| on.2.clone()).map(CpuId).collect();
        let pinned = allowed.len() < 8;
        process.nodes.push(NodeAccesses {
            node: node.id,
            threads: own.map_or(0, |on| on.1),
            pinned,
            accesses_s: own.map_or(vec![0.0; 2], |on| on.3.to_vec()),
            resident_bytes: resident_mb * 1_000_000,
        });
        for _ in 0..own.map_or(0, |on| on.1) {
            let key = ThreadKey {
                process_id: id,
                thread_id,
                start_ticks: 1,
            };
            facts.window.threads.push(ThreadFacts {
                busy_ns: SECOND_NS,
                pinned,
                ..ThreadFacts::idle(key, node.id, 2, allowed.clone())
            });
            facts.window.nodes[usize::from(node.id.0)].busy_ns += SECOND_NS;
            thread_id += 1;
        }
    }
    facts.accesses.processes.push(process);
}

fn window(machine: &Machine) -> Facts {
    let mut facts = Facts::of(Window::empty(machine, 0, 0, SECOND_NS));
    facts.accesses.free_bytes = vec![6 * GB; 2];
    facts
}

fn found(machine: &Machine, facts: &Facts) -> Vec<Finding> {
    facts.accesses.validate(machine).expect("valid accesses");
    let kinds = [
        ActionKind::ThreadMigration,
        ActionKind::ProcessMigration,
        ActionKind::MemoryMigration,
        ActionKind::Relocation,
    ];
    diagnose(&Look {
        machine,
        make: System::All.make(),
        settings: &System::All.settings(),
        kinds: &kinds,
        facts,
    })
}

/// Of a window with a single process.
fn of_one(machine: &Machine, on: &[On], resident_mb: [u64; 2]) -> Finding {
    let mut facts = window(machine);
    add(&mut facts, machine, 7, on, resident_mb);
    let mut found = found(machine, &facts);
    assert_eq!(found.len(), 1);
    found.remove(0)
}

fn kinds(finding: &Finding) -> Vec<ActionKind> {
    let records = finding.would_do.iter();
    records.map(|record| record.action.kind()).collect()
}

#[test]
fn threads_that_may_move_are_apart_from_their_memory() {
    let machine = machine();
    let finding = of_one(&machine, &[On(1, 2, 0..8, [1e7, 0.0])], [1000, 0]);
    assert_eq!(finding.verdict, Verdict::Apart);
    assert_eq!(kinds(&finding), [ActionKind::ProcessMigration]);
    assert_eq!(finding.remote_share, Some(1.0));
    let gain = finding.gain.expect("an estimate");
    assert!((0.01..10.0).contains(&gain), "{gain}");
    assert!(finding.verdict.is_fault());
}

#[test]
fn bound_threads_are_apart_from_memory_that_can_come() {
    let machine = machine();
    let finding = of_one(&machine, &[On(1, 2, 4..8, [1e7, 0.0])], [1000, 0]);
    assert_eq!(finding.verdict, Verdict::Apart);
    assert_eq!(kinds(&finding), [ActionKind::MemoryMigration]);
    assert!(finding.gain.expect("an estimate") > 0.01);
}

/// A window in which a thread on node 1, which may run on these CPUs, reads a file that lies on node 0.
fn reader(machine: &Machine, cpus: std::ops::Range<u16>) -> (Facts, FileKey) {
    let mut facts = window(machine);
    let file = FileKey {
        volume: 0,
        inode: 9,
    };
    add(
        &mut facts,
        machine,
        7,
        &[On(1, 1, cpus, [0.0, 0.0])],
        [0, 1],
    );
    facts.accesses.processes.clear();
    let thread = &mut facts.window.threads[0];
    thread.read_bytes = vec![GB, 0];
    thread.files = vec![FileUse {
        file,
        read_bytes: GB,
        written_bytes: 0,
    }];
    facts.window.nodes[0].read_bytes = GB;
    (facts, file)
}

#[test]
fn a_bound_program_says_what_its_binding_costs() {
    let machine = machine();
    let (facts, _) = reader(&machine, 4..8);
    let finding = &found(&machine, &facts)[0];
    assert_eq!(finding.verdict, Verdict::Bound);
    assert!(finding.would_do.is_empty());
    assert_eq!(finding.files_remote_share, Some(1.0));
    let freed = finding.if_it_could.iter().map(|record| &record.action);
    let freed: Vec<&Action> = freed.collect();
    assert!(
        matches!(freed[..], [Action::MigrateThread(step)] if step.to == NodeId(0)),
        "{freed:?}"
    );
    let expected = finding.if_it_could[0].expected.expect("an expectation");
    assert_eq!((expected.before, expected.expected), (0.0, 1.0));
}

#[test]
fn files_read_from_another_node_are_elsewhere() {
    let machine = machine();
    let (mut facts, file) = reader(&machine, 0..8);
    facts.files.push(FileFacts {
        file,
        bytes: 100_000_000,
        bytes_on: vec![100_000_000, 0],
        read_bytes: vec![vec![0, 0], vec![GB, 0]],
        written_bytes: 0,
        replicas: Vec::new(),
    });
    let finding = &found(&machine, &facts)[0];
    assert_eq!(finding.verdict, Verdict::PageCacheElsewhere);
    assert!(!finding.would_do.is_empty());
    // Threads that may not go there get their file, which has a cost in time.
    let bound = &mut facts.window.threads[0];
    (bound.pinned, bound.allowed_cpus) = (true, (4..8).map(CpuId).collect());
    let bound = &found(&machine, &facts)[0];
    assert_eq!(kinds(bound), [ActionKind::Relocation]);
    let gain = bound.gain.expect("an estimate");
    assert!((0.001..=9.0).contains(&gain), "{gain}");
}

#[test]
fn memory_without_room_at_its_threads_is_named() {
    let machine = machine();
    let mut facts = window(&machine);
    facts.accesses.free_bytes = vec![6 * GB, 1 << 20];
    add(
        &mut facts,
        &machine,
        7,
        &[On(1, 2, 4..8, [1e7, 0.0])],
        [1000, 0],
    );
    let finding = &found(&machine, &facts)[0];
    assert_eq!(finding.verdict, Verdict::NoRoom);
    let kept = finding.kept.as_ref().map(|kept| &kept.because);
    assert!(
        matches!(kept, Some(ProcessKept::NoRoom { node, .. }) if *node == NodeId(1)),
        "{kept:?}"
    );
    // As much as with room.
    assert!(finding.gain.expect("an estimate") > 0.01);
    let then = finding.if_it_could.iter();
    let then: Vec<ActionKind> = then.map(|record| record.action.kind()).collect();
    assert_eq!(then, [ActionKind::MemoryMigration]);
}

#[test]
fn memory_that_no_node_holds_has_outgrown_them() {
    let machine = machine();
    let mut facts = window(&machine);
    facts.accesses.free_bytes = vec![1 << 20, 3 * GB];
    add(
        &mut facts,
        &machine,
        7,
        &[On(0, 4, 0..4, [7e6, 3e6])],
        [7000, 3000],
    );
    let finding = &found(&machine, &facts)[0];
    assert_eq!(finding.verdict, Verdict::Outgrown, "{:?}", finding.kept);
}

#[test]
fn a_local_program_has_no_fault() {
    let machine = machine();
    let finding = of_one(&machine, &[On(0, 2, 0..8, [1e7, 0.0])], [1000, 0]);
    assert_eq!(finding.verdict, Verdict::Local);
    assert!(!finding.verdict.is_fault());
    assert!(finding.would_do.is_empty() && finding.gain.is_none());
}

#[test]
fn threads_of_a_crowded_node_are_named() {
    let machine = machine();
    let finding = of_one(&machine, &[On(0, 8, 0..8, [1e7, 0.0])], [100, 0]);
    assert_eq!(finding.verdict, Verdict::Crowded);
}

#[test]
fn a_program_whose_accessors_are_unknown_is_no_fault() {
    let machine = machine();
    let mut facts = window(&machine);
    let on = [On(0, 2, 0..4, [5e6, 5e6]), On(1, 2, 4..8, [5e6, 5e6])];
    add(&mut facts, &machine, 7, &on, [500, 500]);
    facts.accesses.processes[0].accessors_known = false;
    let finding = &found(&machine, &facts)[0];
    assert_eq!(finding.verdict, Verdict::AccessorsUnknown);
    assert!(!finding.verdict.is_fault());
}

#[test]
fn an_idle_program_is_quiet() {
    let machine = machine();
    let mut facts = window(&machine);
    add(
        &mut facts,
        &machine,
        7,
        &[On(1, 1, 0..8, [10.0, 0.0])],
        [1, 0],
    );
    assert_eq!(found(&machine, &facts)[0].verdict, Verdict::Quiet);
}

#[test]
fn findings_hold_on_a_machine_with_known_memories() {
    let machine = Machine::profile("xeon-2s-dram").expect("a profile");
    let mut facts = window(&machine);
    let cores = machine.nodes[0].cpus.len() as u16;
    let all = 0..2 * cores;
    let mut on = On(1, 4, 0..8, [1e8, 0.0]);
    on.2 = 0..8;
    add(&mut facts, &machine, 7, &[on], [1000, 0]);
    for thread in &mut facts.window.threads {
        thread.allowed_cpus = all.clone().map(CpuId).collect();
    }
    let finding = &found(&machine, &facts)[0];
    assert_eq!(finding.verdict, Verdict::Apart);
}
