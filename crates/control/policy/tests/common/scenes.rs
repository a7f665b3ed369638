//! Machines and windows of file I/O, as they come.

use egeria_facts::{CpuSet, ThreadFacts, Window};
use egeria_machine::{Machine, NodeId};
use egeria_policy::{Displaced, Plan};
use proptest::prelude::*;

use super::{SECOND_NS, key, machine, make_real, window};

const MAX_BYTES: u64 = 3_000_000_000;

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..2_000_000_u64, 0..MAX_BYTES / 4, 0..MAX_BYTES]
}

/// CPUs of one node, of some, or of all (4 each).
fn cpus(nodes: usize) -> impl Strategy<Value = CpuSet> {
    let all = format!("0-{}", nodes * 4 - 1);
    let list = prop_oneof![
        4 => Just(all),
        1 => (0..nodes).prop_map(|node| format!("{}-{}", node * 4, node * 4 + 1)),
        1 => (0..nodes * 4).prop_map(|cpu| format!("0-{cpu}")),
    ];
    list.prop_map(|list| list.parse().expect("a list"))
}

fn facts(nodes: usize) -> impl Strategy<Value = ThreadFacts> {
    let node = 0..nodes;
    let reads = prop::collection::vec(bytes(), nodes);
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.2));
    let work = (reads, bytes(), 0..=SECOND_NS);
    (node, work, flags, cpus(nodes)).prop_map(
        move |(node, (reads, written, busy_ns), (pinned, is_shared), cpus)| {
            let mut facts = ThreadFacts::idle(key(0), NodeId(node as u16), nodes, cpus);
            facts.read_bytes = reads;
            facts.written_bytes[node] = written;
            facts.busy_ns = busy_ns;
            facts.pinned = pinned;
            facts.is_shared = is_shared;
            facts
        },
    )
}

/// A machine of 2 to 8 nodes, and a window on it; the last node may have no CPUs or no pool.
pub fn scene() -> impl Strategy<Value = (Machine, Window)> {
    let oddities = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    let threads = |nodes| prop::collection::vec(facts(nodes), 0..40);
    let parts = (2..=8_usize).prop_flat_map(move |nodes| (Just(nodes), threads(nodes), oddities));
    parts.prop_map(|(nodes, mut threads, (no_cpus, no_pool))| {
        let mut machine = machine(nodes);
        if no_cpus {
            real_with_memory_only_node(&mut machine);
        }
        for (number, facts) in threads.iter_mut().enumerate() {
            facts.key = key(number as u32);
        }
        let mut window = window(&machine, threads);
        window.nodes[nodes - 1].has_pool = !no_pool;
        (machine, window)
    })
}

/// Real nodes that say how fast they are; the last has memory only.
fn real_with_memory_only_node(machine: &mut Machine) {
    make_real(machine);
    machine.nodes.last_mut().expect("a node").cpus.clear();
}

/// A plan before the window that left every third thread away from some node.
pub fn plan_before(machine: &Machine, window: &Window) -> Plan {
    let nodes = machine.nodes.len();
    let displaced = window.threads.iter().map(|facts| {
        let number = facts.key.thread_id as usize;
        let home = machine.nodes[(number / 3) % nodes].id;
        number.is_multiple_of(3).then_some(Displaced {
            thread: facts.key,
            home,
            contention: None,
        })
    });
    Plan {
        displaced: displaced.flatten().collect(),
        ..Plan::default()
    }
}
