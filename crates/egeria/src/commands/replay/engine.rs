//! A policy over recorded windows.

use std::collections::HashMap;

use egeria_machine::{Machine, NodeId};
use egeria_policy::Plan;
use egeria_policy::nthread::{self, Settings};
use egeria_window::{NodeFacts, ThreadKey, Window};

/// One policy and what it did so far.
pub(super) struct Replay<'a> {
    machine: &'a Machine,
    settings: Settings,
    /// Where the replay put threads.
    places: HashMap<ThreadKey, NodeId>,
    last: Plan,
}

impl<'a> Replay<'a> {
    pub(super) fn new(machine: &'a Machine, settings: Settings) -> Replay<'a> {
        Replay {
            machine,
            settings,
            places: HashMap::new(),
            last: Plan::default(),
        }
    }

    /// The window with threads where the replay has put them, and what the policy does about it.
    pub(super) fn step(&mut self, window: &Window) -> (Window, Plan) {
        let mut window = window.clone();
        for index in 0..window.threads.len() {
            if let Some(&node) = self.places.get(&window.threads[index].key) {
                relocate(self.machine, &mut window, index, node);
            }
        }
        // Marks that were recorded are those of another policy: they go.
        self.last.carry_to(&mut window);
        let plan = nthread::plan(self.machine, &window, &self.settings);
        let moves = plan.moves.iter().map(|each| (each.thread, each.to));
        self.places.extend(moves);
        self.last = plan.clone();
        (window, plan)
    }
}

/// Puts a thread on a node, with its running time and, where there is a pool, its writes; what it
/// reads stays where it is. What the nodes counted follows.
fn relocate(machine: &Machine, window: &mut Window, index: usize, node: NodeId) {
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

    use egeria_policy::nthread::Configuration;
    use egeria_window::ThreadFacts;

    use super::*;

    /// Two nodes of four CPUs, and a thread on node 0 that reads from node 1 and writes on node 0.
    fn remote_reader() -> (Machine, Window) {
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
        (machine, window)
    }

    #[test]
    fn a_moved_thread_is_on_its_new_node_from_the_next_window_on() {
        let (machine, window) = remote_reader();
        let mut replay = Replay::new(&machine, Settings::of(Configuration::Rl));
        let (first, plan) = replay.step(&window);
        assert_eq!(first, window);
        assert_eq!((plan.moves.len(), plan.moves[0].to), (1, NodeId(4)));
        let (second, plan) = replay.step(&window);
        assert_eq!(plan.moves, []);
        let thread = &second.threads[0];
        assert_eq!(
            (thread.node, &thread.read_bytes),
            (NodeId(4), &window.threads[0].read_bytes)
        );
        assert_eq!(thread.written_bytes, [0, 7]);
        // What a node did not count cannot leave it.
        let nodes =
            |field: fn(&NodeFacts) -> u64| second.nodes.iter().map(field).collect::<Vec<_>>();
        assert_eq!(nodes(|facts| facts.busy_ns), [700, 300]);
        assert_eq!(nodes(|facts| facts.written_bytes), [0, 5]);
    }

    #[test]
    fn writes_stay_where_they_were_when_the_new_node_has_no_pool() {
        let (machine, mut window) = remote_reader();
        window.nodes[1].has_pool = false;
        relocate(&machine, &mut window, 0, NodeId(4));
        assert_eq!(window.threads[0].written_bytes, [7, 0]);
        assert_eq!(window.nodes[0].written_bytes, 5);
    }

    #[test]
    fn recorded_marks_of_another_policy_are_dropped() {
        let (machine, mut window) = remote_reader();
        window.threads[0].displaced_from = Some(NodeId(4));
        let mut replay = Replay::new(&machine, Settings::of(Configuration::Full));
        assert_eq!(replay.step(&window).0.threads[0].displaced_from, None);
    }
}
