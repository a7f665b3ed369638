//! All the facts of a window at once, and what comes of a decision where rates stay as they are.
#![allow(
    dead_code,
    reason = "every test program uses its own part of the helpers"
)]

use egeria_facts::{AccessWindow, NodeAccesses, ProcessAccesses, ProcessKey};
use egeria_facts::{Facts, FileFacts, MediumFacts};
use egeria_facts::{FileKey, FileUse, ThreadFacts, Window};
use egeria_facts::{Measured, Mix};
use egeria_machine::{Link, Machine, NodeId};
use egeria_policy::Plan;
use egeria_policy::asymsched::{NodeMove, PlacementPlan};
use egeria_policy::planner::Decision;
use proptest::prelude::*;

use crate::clusters::{GB, obeyed};
use crate::common::scenes::scene;

/// A ring of links of different width between the nodes.
pub fn join(machine: &mut Machine, widths: &[f64]) {
    let count = machine.nodes.len();
    let pairs = if count == 2 { 1 } else { count };
    let link = |from: usize| Link {
        from: machine.nodes[from].id,
        to: machine.nodes[(from + 1) % count].id,
        bytes_s: widths[from % widths.len()],
        back_bytes_s: Some(widths[(from * 3 + 1) % widths.len()]),
        latency_ns: 0.0,
    };
    machine.interconnect.links = (0..pairs).map(link).collect();
    machine.paths().expect("a ring reaches every node");
}

fn process(nodes: usize, number: u32) -> impl Strategy<Value = ProcessAccesses> {
    let on = prop::sample::subsequence((0..nodes).collect::<Vec<_>>(), 1..=nodes.min(3));
    let each = (5.0..9.0f64, 1..12_u32, 0..4 * GB, prop::bool::weighted(0.1));
    let spent = (0..1000 * GB, 0.0..0.04f64);
    (on, prop::collection::vec(each, 3), spent).prop_map(move |(on, each, (running_ns, part))| {
        let entry = |(place, &(power, threads, resident_bytes, pinned)): (usize, &_)| {
            let mut accesses_s = vec![0.0; nodes];
            on.iter()
                .for_each(|memory| accesses_s[*memory] = 10f64.powf(power));
            NodeAccesses {
                node: NodeId(on[place] as u16),
                threads,
                pinned,
                accesses_s,
                resident_bytes,
            }
        };
        ProcessAccesses {
            process: ProcessKey {
                process_id: number,
                start_ticks: 1,
            },
            nodes: each.iter().take(on.len()).enumerate().map(entry).collect(),
            running_ns,
            migrating_ns: (running_ns as f64 * part) as u64,
            ..ProcessAccesses::default()
        }
    })
}

fn accesses(nodes: usize) -> impl Strategy<Value = AccessWindow> {
    let processes = (1..=4).map(move |number| process(nodes, number).boxed());
    let chosen = prop::collection::vec(any::<bool>(), 4);
    (processes.collect::<Vec<_>>(), chosen).prop_map(|(processes, chosen)| AccessWindow {
        kernel_balances: false,
        number: 0,
        end_ns: GB,
        processes: (processes.into_iter().zip(chosen))
            .filter_map(|(process, is_there)| is_there.then_some(process))
            .collect(),
        migration_cost: None,
        free_bytes: Vec::new(),
    })
}

fn medium(number: usize) -> impl Strategy<Value = MediumFacts> {
    let mix = (0..1000_u64, 64.0..1e6f64, 0.0..=1.0f64);
    let rates = (0..40_u32, 0.0..7e9f64, 0.0..2e10f64);
    let rest = (prop::option::of(0..50 * GB), any::<Option<bool>>());
    (mix, rates, rest).prop_map(
        move |((requests, mean_bytes, write_share), rates, (free_bytes, striped_files))| {
            MediumFacts {
                node: NodeId(number as u16),
                measured: Measured {
                    mix: Mix {
                        requests,
                        mean_bytes,
                        write_share,
                    },
                    demand: rates.0,
                    pm_bytes_s: rates.1,
                    dram_bytes_s: Some(rates.2),
                },
                free_bytes,
                striped_files,
            }
        },
    )
}

fn file(nodes: usize) -> impl Strategy<Value = FileFacts> {
    let reads = prop_oneof![Just(0), 0..2 * GB];
    let reads = prop::collection::vec(prop::collection::vec(reads, nodes), nodes);
    let written = prop_oneof![3 => Just(0), 1 => 0..GB];
    let size = (0..8 * GB, 0..nodes, prop::bool::weighted(0.2), 0..nodes);
    let free = prop::bool::weighted(0.2);
    (reads, written, size, free).prop_map(
        move |(read_bytes, written_bytes, (bytes, on, has_copy, copy), is_spread)| {
            let mut bytes_on = vec![0; nodes];
            bytes_on[on] = bytes;
            if is_spread {
                bytes_on = vec![bytes / nodes as u64; nodes];
            }
            let mut replicas = vec![false; nodes];
            replicas[copy] = has_copy;
            FileFacts {
                file: FileKey::default(),
                bytes,
                bytes_on,
                read_bytes,
                written_bytes,
                replicas,
            }
        },
    )
}

/// A machine of 2 to 8 nodes with links, and everything that can happen on it; threads of four processes, which access
/// memory as well.
pub fn whole() -> impl Strategy<Value = (Machine, Facts)> {
    let widths = prop::collection::vec(0.5e9..2e10f64, 1..8);
    let parts = (scene(), widths).prop_flat_map(|((machine, window), widths)| {
        let nodes = machine.nodes.len();
        let media = (0..nodes)
            .map(|node| medium(node).boxed())
            .collect::<Vec<_>>();
        let files = prop::collection::vec(file(nodes), 0..12);
        (
            Just((machine, window, widths)),
            accesses(nodes),
            media,
            files,
        )
    });
    parts.prop_map(
        |((mut machine, mut window, widths), accesses, media, mut files)| {
            join(&mut machine, &widths);
            for (number, file) in files.iter_mut().enumerate() {
                file.file = FileKey {
                    volume: 0,
                    inode: number as u64,
                };
            }
            for (number, thread) in window.threads.iter_mut().enumerate() {
                thread.key.process_id = 1 + number as u32 % 4;
                let used = files.get(number % files.len().max(1));
                thread.files.extend(used.map(|file| FileUse {
                    file: file.file,
                    read_bytes: thread.read_total() / 2,
                    written_bytes: 0,
                }));
            }
            window.validate(&machine).expect("made to be valid");
            accesses.validate(&machine).expect("made to be valid");
            let facts = Facts {
                window,
                accesses,
                media,
                files,
                memories: Vec::new(),
                kinds: Vec::new(),
            };
            (machine, facts)
        },
    )
}

/// Threads that do the same everywhere: writes go along, nothing else changes.
pub fn rigid_act(window: &mut Window, plan: &Plan, machine: &Machine) {
    for step in &plan.moves {
        let mut threads = window.threads.iter_mut();
        let thread = threads.find(|thread| thread.key == step.thread);
        go(thread.expect("a thread of the window"), step.to, machine);
    }
}

/// Threads of a process leave a node together.
fn rigid_leave(window: &mut Window, plan: &PlacementPlan, machine: &Machine) {
    for thread in &mut window.threads {
        let mut moves = plan.moves.iter();
        let step = moves.find(|step| is_of(step, thread));
        if let Some(step) = step {
            go(thread, step.to, machine);
        }
    }
}

/// Whether a thread leaves with a step.
pub fn is_of(step: &NodeMove, thread: &ThreadFacts) -> bool {
    step.process.process_id == thread.key.process_id && step.from == thread.node
}

fn go(thread: &mut ThreadFacts, to: NodeId, machine: &Machine) {
    let written = thread.written_total();
    thread.written_bytes.fill(0);
    thread.written_bytes[machine.index_of(to).expect("a node")] = written;
    thread.node = to;
}

/// Where the window's threads are afterwards.
pub fn rigid_act_all(window: &mut Window, decision: &Decision, machine: &Machine) {
    rigid_leave(window, &decision.placement, machine);
    rigid_act(window, &decision.threads, machine);
}

/// The facts a second later, when all was done as decided and everybody does the same where he is now.
pub fn obeyed_all(machine: &Machine, facts: &Facts, decision: &Decision) -> Facts {
    let mut next = facts.clone();
    rigid_act_all(&mut next.window, decision, machine);
    next.window.number += 1;
    next.window.start_ns += GB;
    next.accesses = obeyed(machine, &facts.accesses, &decision.placement);
    for process in &mut next.accesses.processes {
        process.running_ns += GB;
    }
    next
}
