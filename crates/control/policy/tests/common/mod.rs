//! Machines and windows for the tests, and a small model of what threads do next.
#![allow(
    dead_code,
    reason = "every test program uses its own part of the helpers"
)]

pub mod fluid;
pub mod knee;
pub mod scenes;
pub(crate) mod settings;
pub mod workloads;

use egeria_facts::{CpuSet, ThreadFacts, ThreadKey, Window};
use egeria_machine::{AccessClass, CpuId, EmulatedMachine, EmulatedNode, Link, Machine, NodeId};

/// One second.
pub const SECOND_NS: u64 = 1_000_000_000;

/// NThread's testbed with so many nodes of 4 cores; node `n` has CPUs `4 n` to `4 n + 3`.
pub fn machine(nodes: usize) -> Machine {
    let optane = Machine::profile("optane-2s").expect("the profile ships with the crate");
    let node = |index: usize| {
        let mut node = optane.nodes[0].clone();
        node.id = NodeId(index as u16);
        node.cpus = (0..4).map(|cpu| CpuId((index * 4 + cpu) as u16)).collect();
        node
    };
    let emulated = optane.emulated.as_ref().expect("the profile is emulated");
    let declared: Vec<EmulatedNode> = vec![emulated.nodes[0].clone(); nodes];
    let distance = |from: usize, to: usize| if from == to { 10 } else { 21 };
    Machine {
        interconnect: Default::default(),
        nodes: (0..nodes).map(node).collect(),
        distances: (0..nodes)
            .map(|from| (0..nodes).map(|to| distance(from, to)).collect())
            .collect(),
        emulated: Some(EmulatedMachine {
            nodes: declared,
            ..emulated.clone()
        }),
        ..optane
    }
}

/// Nodes in a ring; the link from each to the next carries so much both ways.
pub fn ring(widths: &[f64]) -> Machine {
    let mut machine = machine(widths.len());
    let link = |(from, &bytes_s): (usize, &f64)| Link {
        from: NodeId(from as u16),
        to: NodeId(((from + 1) % widths.len()) as u16),
        bytes_s,
        back_bytes_s: Some(bytes_s),
        latency_ns: 0.0,
    };
    machine.interconnect.links = widths.iter().enumerate().map(link).collect();
    machine.paths().expect("every node reaches every other");
    machine
}

/// Makes nodes real that were emulated; they say how fast they are.
pub fn make_real(machine: &mut Machine) {
    let emulated = machine.emulated.take().expect("emulated so far");
    for (node, declared) in machine.nodes.iter_mut().zip(&emulated.nodes) {
        node.bandwidth = Some(AccessClass {
            read_bytes_s: declared.read_bytes_s,
            write_bytes_s: declared.write_bytes_s,
            read_latency_ns: 100.0,
            write_latency_ns: 100.0,
            initiators: Vec::new(),
        });
    }
}

/// The thread with this number.
pub fn key(number: u32) -> ThreadKey {
    ThreadKey {
        process_id: 1,
        thread_id: number,
        start_ticks: 1,
    }
}

/// Every CPU of the machine.
pub fn all_cpus(machine: &Machine) -> CpuSet {
    let cpus = machine.nodes.iter().flat_map(|node| node.cpus.iter());
    cpus.copied().collect()
}

/// A thread that may run anywhere: what it read from each node and wrote (on its own), and how
/// long it ran, as rates of a window of one second.
pub fn thread(
    machine: &Machine,
    number: u32,
    node: usize,
    read_bytes: &[u64],
    written_bytes: u64,
    busy: f64,
) -> ThreadFacts {
    let count = machine.nodes.len();
    let cpus = all_cpus(machine);
    let mut facts = ThreadFacts::idle(key(number), machine.nodes[node].id, count, cpus);
    facts.read_bytes[..read_bytes.len()].copy_from_slice(read_bytes);
    facts.written_bytes[node] = written_bytes;
    facts.busy_ns = (busy * SECOND_NS as f64) as u64;
    facts
}

/// A window of one second with these threads.
pub fn window(machine: &Machine, threads: Vec<ThreadFacts>) -> Window {
    let mut window = Window::empty(machine, 0, 0, SECOND_NS);
    window.threads = threads;
    window.validate(machine).expect("tests make valid windows");
    window
}
