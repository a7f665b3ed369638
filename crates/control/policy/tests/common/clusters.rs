//! Machines with links, and windows of accesses.
#![allow(
    dead_code,
    reason = "every test program uses its own part of the helpers"
)]

use egeria_facts::{AccessWindow, NodeAccesses, ProcessAccesses, ProcessKey};
use egeria_machine::{Link, Machine, NodeId};
use egeria_policy::asymsched::PlacementPlan;

pub const GB: u64 = 1_000_000_000;

/// Real nodes of 4 cores with these one-way links.
pub fn linked(nodes: usize, links: &[(usize, usize, f64)]) -> Machine {
    let tables = (0..nodes).map(|id| {
        format!(
            "[[nodes]]\nid = {id}\ncpus = \"{}-{}\"\n",
            id * 4,
            id * 4 + 3
        )
    });
    let text = format!("name = \"linked\"\n{}", tables.collect::<String>());
    let mut machine = Machine::from_toml(&text, "linked.toml".as_ref()).expect("a good file");
    let link = |&(from, to, bytes_s): &(usize, usize, f64)| Link {
        from: NodeId(from as u16),
        to: NodeId(to as u16),
        bytes_s,
        back_bytes_s: None,
        latency_ns: 0.0,
    };
    machine.interconnect.links = links.iter().map(link).collect();
    machine.paths().expect("every node reaches every other");
    machine
}

/// Nodes 0-1 joined by 1 GB/s each way, 2-3 by 10; a slow ring around. Processes change places as their weights do.
pub fn uneven() -> Machine {
    let pairs = [(0, 1, 1e9), (2, 3, 10e9), (1, 2, 1e8), (3, 0, 1e8)];
    let both = pairs
        .iter()
        .flat_map(|&(a, b, width)| [(a, b, width), (b, a, width)]);
    linked(4, &both.collect::<Vec<_>>())
}

/// A process that has run so long that its budget is no matter, with 8 threads on each of these nodes. Each accesses
/// the others' memory so often, and 1 GB lies on each.
pub fn process(
    machine: &Machine,
    number: u32,
    nodes: &[usize],
    accesses_s: f64,
) -> ProcessAccesses {
    let mut facts = ProcessAccesses {
        process: ProcessKey {
            process_id: number,
            start_ticks: 7,
        },
        running_ns: 1_000_000 * GB,
        ..ProcessAccesses::default()
    };
    for node in nodes {
        let mut rates = vec![0.0; machine.nodes.len()];
        nodes.iter().for_each(|memory| rates[*memory] = accesses_s);
        facts.nodes.push(NodeAccesses {
            node: machine.nodes[*node].id,
            threads: 8,
            pinned: false,
            accesses_s: rates,
            resident_bytes: GB,
        });
    }
    facts
}

pub fn window(processes: Vec<ProcessAccesses>) -> AccessWindow {
    AccessWindow {
        number: 1,
        end_ns: GB,
        processes,
        ..AccessWindow::default()
    }
}

/// The next window when threads and their memory have moved as planned, and accesses with them.
pub fn obeyed(machine: &Machine, window: &AccessWindow, plan: &PlacementPlan) -> AccessWindow {
    let mut next = plan.obeyed(machine, window);
    next.number += 1;
    next.end_ns += GB;
    next
}
