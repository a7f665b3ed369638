//! A policy over recorded windows: threads are where it would have put them, as far as facts can show that.

use std::collections::HashMap;

use super::{Actuator, ControlLoop, Turn};
use crate::planner::{Make, Settings};
use crate::{Action, ActionKind, ActionOutcome};
use egeria_facts::{Facts, NodeFacts, ThreadKey, Window};
use egeria_machine::{Machine, NodeId};

/// One policy, and what it did so far.
#[derive(Debug)]
pub struct Replay {
    control: ControlLoop,
    places: Places,
}

/// Where the replay put threads. All else that is ordered changes nothing in recorded windows.
#[derive(Debug, Default)]
struct Places(HashMap<ThreadKey, NodeId>);

impl Actuator for Places {
    fn kinds(&self) -> &[ActionKind] {
        &ActionKind::ALL
    }

    fn apply(&mut self, action: &Action, facts: &Facts) -> ActionOutcome {
        match action {
            Action::MigrateThread(step) => _ = self.0.insert(step.thread, step.to),
            Action::MigrateProcess { step, .. } => {
                let there = facts.window.threads.iter().filter(|thread| {
                    thread.key.process_id == step.process.process_id && thread.node == step.from
                });
                self.0.extend(there.map(|thread| (thread.key, step.to)));
            }
            _ => {}
        }
        ActionOutcome::Done
    }
}

impl Replay {
    /// A policy that has seen no window yet.
    pub fn new(machine: &Machine, make: Make, settings: Settings) -> Replay {
        Replay {
            control: ControlLoop::new(machine, make, settings, &ActionKind::ALL)
                .showing(&[ActionKind::ThreadMigration]),
            places: Places::default(),
        }
    }

    /// The facts with threads where the replay has put them, and what the policy does about them.
    pub fn step(&mut self, facts: &Facts) -> (Facts, Turn) {
        let mut facts = facts.clone();
        let machine = self.control.machine();
        for index in 0..facts.window.threads.len() {
            let thread = facts.window.threads[index].key;
            if let Some(&node) = self.places.0.get(&thread) {
                put(machine, &mut facts.window, index, node);
            }
        }
        let turn = self.control.turn(&facts, &mut [&mut self.places]);
        (facts, turn)
    }
}

/// Puts a thread on a node, with its running time and, where there is a pool, its writes; what it
/// reads stays where it is. What the nodes counted follows.
fn put(machine: &Machine, window: &mut Window, index: usize, node: NodeId) {
    let thread = &mut window.threads[index];
    let (from, to) = (machine.index_of(thread.node), machine.index_of(node));
    let (Some(from), Some(to)) = (from, to) else {
        return;
    };
    thread.node = node;
    let busy_ns = thread.busy_ns.min(window.duration_ns);
    shift(&mut window.nodes, (from, to), busy_ns, |facts| {
        &mut facts.busy_ns
    });
    if !window.nodes[to].has_pool {
        return;
    }
    let total = thread.written_total();
    for (place, bytes) in thread.written_bytes.iter_mut().enumerate() {
        let bytes = std::mem::take(bytes);
        shift(&mut window.nodes, (place, to), bytes, |facts| {
            &mut facts.written_bytes
        });
    }
    thread.written_bytes[to] = total;
}

/// Moves an amount from one node to another, as far as the first has counted it.
fn shift(
    nodes: &mut [NodeFacts],
    (from, to): (usize, usize),
    amount: u64,
    field: impl Fn(&mut NodeFacts) -> &mut u64,
) {
    let counted = field(&mut nodes[from]);
    let amount = amount.min(*counted);
    *counted -= amount;
    let target = field(&mut nodes[to]);
    *target = target.saturating_add(amount);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::planner::System;
    use egeria_facts::ThreadFacts;

    use super::*;

    /// Two nodes of four CPUs, and a thread on node 0 that reads from node 1 and writes on node 0.
    fn remote_reader() -> (Machine, Facts) {
        let text =
            "name = \"t\"\n[[nodes]]\nid = 0\ncpus = \"0-3\"\n[[nodes]]\nid = 4\ncpus = \"4-7\"\n";
        let machine = Machine::from_toml(text, Path::new("t")).unwrap();
        let mut window = Window::empty(&machine, 0, 0, 1_000_000_000);
        let cpus = "0-7".parse().unwrap();
        let mut thread = ThreadFacts::idle(ThreadKey::default(), NodeId(0), 2, cpus);
        thread.read_bytes = vec![0, 500 << 20];
        thread.written_bytes = vec![7, 0];
        thread.busy_ns = 300;
        window.nodes[0].busy_ns = 1000;
        window.nodes[0].written_bytes = 5;
        window.threads.push(thread);
        (machine, Facts::of(window))
    }

    #[test]
    fn a_moved_thread_is_on_its_new_node_from_the_next_window_on() {
        let (machine, facts) = remote_reader();
        let mut replay = Replay::new(&machine, System::Rl.make(), System::Rl.settings());
        let (first, turn) = replay.step(&facts);
        assert_eq!(first, facts);
        let moves = turn.decision.threads.moves;
        assert_eq!((moves.len(), moves[0].to), (1, NodeId(4)));
        let (second, turn) = replay.step(&facts);
        assert!(turn.actions.is_empty());
        let thread = &second.window.threads[0];
        assert_eq!(
            (thread.node, &thread.read_bytes),
            (NodeId(4), &facts.window.threads[0].read_bytes)
        );
        assert_eq!(thread.written_bytes, [0, 7]);
        // What a node did not count cannot leave it.
        let nodes = |field: fn(&NodeFacts) -> u64| {
            second.window.nodes.iter().map(field).collect::<Vec<_>>()
        };
        assert_eq!(nodes(|facts| facts.busy_ns), [700, 300]);
        assert_eq!(nodes(|facts| facts.written_bytes), [0, 5]);
    }

    #[test]
    fn the_result_of_a_move_is_measured_in_the_next_window() {
        let (machine, facts) = remote_reader();
        let mut replay = Replay::new(&machine, System::Full.make(), System::Full.settings());
        let (_, first) = replay.step(&facts);
        assert!(first.results.is_empty());
        let (_, second) = replay.step(&facts);
        assert_eq!(second.results.len(), 1);
        let result = &second.results[0];
        assert_eq!((result.measured, result.missed), (Some(1.0), false));
    }

    #[test]
    fn writes_stay_where_they_were_when_the_new_node_has_no_pool() {
        let (machine, mut facts) = remote_reader();
        let window = &mut facts.window;
        window.nodes[1].has_pool = false;
        put(&machine, window, 0, NodeId(4));
        assert_eq!(window.threads[0].written_bytes, [7, 0]);
        assert_eq!(window.nodes[0].written_bytes, 5);
    }
}
