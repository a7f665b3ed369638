//! Short-lived processes are placed with their parent, or what they read comes to them, on a machine that says nothing of
//! its memory.

use crate::common;

use common::{all_cpus, machine, make_real, window};
use egeria_facts::{
    CpuSet, Facts, FileFacts, FileKey, FileUse, KindFacts, Measured, MediumFacts, ThreadFacts,
    ThreadKey,
};
use egeria_machine::{Machine, NodeId};
use egeria_policy::control::{Actuator, ControlLoop, Turn};
use egeria_policy::planner::{Relocate, System};
use egeria_policy::{Action, ActionKind, ActionOutcome, KindFate};

const MB: u64 = 1_000_000;

/// Two nodes with distances and nothing else.
fn plain() -> Machine {
    let mut machine = machine(2);
    make_real(&mut machine);
    for node in &mut machine.nodes {
        node.bandwidth = None;
        node.hardware = Default::default();
        node.pool_bandwidth = None;
    }
    machine
}

fn shell() -> ThreadKey {
    ThreadKey {
        process_id: 7,
        thread_id: 7,
        start_ticks: 1,
    }
}

/// A shell that may use these CPUs, and does next to nothing itself. Its processes run on node 1 and read 300 MB/s of a
/// file on this node.
fn facts(machine: &Machine, cpus: &CpuSet, file_on: usize) -> Facts {
    let parent = ThreadFacts {
        busy_ns: MB,
        ..ThreadFacts::idle(shell(), NodeId(1), 2, cpus.clone())
    };
    let file = FileKey {
        volume: 0,
        inode: 5,
    };
    let mut read_bytes = vec![0; 2];
    read_bytes[file_on] = 300 * MB;
    let mut bytes_on = vec![0; 2];
    bytes_on[file_on] = 48 * MB;
    let room = |node: u16| MediumFacts {
        node: NodeId(node),
        measured: Measured::default(),
        free_bytes: Some(1 << 30),
        striped_files: Some(false),
    };
    Facts {
        media: vec![room(0), room(1)],
        files: vec![FileFacts {
            file,
            bytes: 48 * MB,
            bytes_on,
            read_bytes: vec![vec![0; 2], read_bytes.clone()],
            written_bytes: 0,
            replicas: Vec::new(),
        }],
        kinds: vec![KindFacts {
            windows: 5,
            seen: 1,
            node: Some(NodeId(1)),
            busy_ns: 900 * MB,
            local_bytes: read_bytes[1],
            read_bytes,
            written_bytes: vec![0; 2],
            files: vec![FileUse {
                file,
                read_bytes: 300 * MB,
                written_bytes: 0,
            }],
            ..KindFacts::idle(shell())
        }],
        ..Facts::of(window(machine, vec![parent]))
    }
}

/// Does everything, and says nothing.
struct Doing;

impl Actuator for Doing {
    fn kinds(&self) -> &[ActionKind] {
        &ActionKind::ALL
    }

    fn apply(&mut self, _: &Action, _: &Facts) -> ActionOutcome {
        ActionOutcome::Done
    }

    fn undo(&mut self) -> usize {
        0
    }
}

fn turns(machine: &Machine, facts: &Facts, windows: usize) -> Vec<Turn> {
    let mut settings = System::All.settings();
    settings.relocation.replicas = false;
    let mut control = ControlLoop::new(machine, System::All.make(), settings, &ActionKind::ALL);
    let mut turns = Vec::new();
    for number in 0..windows as u64 {
        let mut facts = facts.clone();
        (facts.window.number, facts.accesses.number) = (number, number);
        turns.push(control.turn(&facts, &mut [&mut Doing]));
    }
    turns
}

fn fate(machine: &Machine, facts: &Facts, turn: &Turn) -> KindFate {
    KindFate::of(machine, facts, &facts.kinds[0], &turn.decision)
}

fn actions(turn: &Turn) -> Vec<&Action> {
    turn.actions.iter().map(|record| &record.action).collect()
}

#[test]
fn a_free_shell_goes_to_what_its_processes_read() {
    let machine = plain();
    let facts = facts(&machine, &all_cpus(&machine), 0);
    let turn = &turns(&machine, &facts, 1)[0];
    let [Action::MigrateThread(step)] = actions(turn)[..] else {
        panic!("{:?}", turn.actions);
    };
    assert_eq!(
        (step.thread, step.from, step.to),
        (shell(), NodeId(1), NodeId(0))
    );
    assert_eq!(
        fate(&machine, &facts, turn),
        KindFate::ParentGoes { to: NodeId(0) }
    );
    let expected = turn.actions[0].expected.expect("an expectation");
    assert!(
        expected.before < 0.1 && expected.expected > 0.9,
        "{expected}"
    );
}

#[test]
fn what_processes_of_a_bound_shell_read_comes_to_them() {
    let machine = plain();
    let bound = machine.nodes[1].cpus.iter().copied().collect();
    let facts = facts(&machine, &bound, 0);
    let turn = &turns(&machine, &facts, 1)[0];
    let [Action::Relocate(step)] = actions(turn)[..] else {
        panic!("{:?}", turn.actions);
    };
    let (from, to) = (NodeId(0), NodeId(1));
    assert_eq!(step.action, Relocate::Move { from, to });
    assert_eq!(step.file, facts.files[0].file);
    assert_eq!(fate(&machine, &facts, turn), KindFate::FileComes { to });
}

#[test]
fn nothing_is_done_where_processes_are_local_or_came_once() {
    let machine = plain();
    let local = facts(&machine, &all_cpus(&machine), 1);
    let mut once = facts(&machine, &all_cpus(&machine), 0);
    once.kinds[0].windows = 1;
    once.files.clear();
    let mut of_init = facts(&machine, &all_cpus(&machine), 0);
    of_init.files.clear();
    of_init.kinds[0].parent.process_id = 1;
    of_init.window.threads[0].key.process_id = 1;
    let cases = [
        (local, KindFate::Local),
        (once, KindFate::Rare),
        (of_init, KindFate::Init),
    ];
    for (facts, why) in cases {
        for turn in turns(&machine, &facts, 12) {
            assert_eq!(turn.actions, [], "{why}");
            assert_eq!(fate(&machine, &facts, &turn), why);
        }
    }
}

#[test]
fn a_kind_without_known_reads_is_left_and_said_to_be() {
    let machine = plain();
    let mut facts = facts(&machine, &all_cpus(&machine), 0);
    facts.files.clear();
    let kind = &mut facts.kinds[0];
    (kind.read_bytes, kind.files, kind.node) = (Vec::new(), Vec::new(), None);
    for turn in turns(&machine, &facts, 12) {
        assert_eq!(turn.actions, []);
        assert_eq!(fate(&machine, &facts, &turn), KindFate::Unseen);
    }
}
