//! How long a decision of the whole planner takes, for 224 and 10,000 threads on 8 nodes with links.
//!
//! `cargo bench -p egeria-policy --bench planner_speed`

#![forbid(unsafe_code)]

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use egeria_facts::{AccessWindow, NodeAccesses, ProcessAccesses, ProcessKey};
use egeria_facts::{CpuSet, FileKey, FileUse, ThreadFacts, ThreadKey, Window};
use egeria_facts::{Facts, FileFacts, MediumFacts};
use egeria_machine::{Machine, Node};
use egeria_policy::planner::{Planner, System};

fn decisions(criterion: &mut Criterion) {
    let machine = Machine::profile("odin-8s").expect("it ships with Egeria");
    let hot = |_: u32| 0_usize;
    let spread = |number: u32| number as usize / 8 % 8;
    for (name, data) in [
        ("all data on node 0", &hot as &dyn Fn(u32) -> usize),
        ("spread data", &spread),
    ] {
        let mut group = criterion.benchmark_group(name);
        for threads in [224, 10_000] {
            let facts = facts(&machine, threads, data);
            facts.window.validate(&machine).expect("made to be valid");
            facts.accesses.validate(&machine).expect("made to be valid");
            // What a planner remembers of an earlier decision would change the next.
            let planner = || Planner::new(&machine, System::All.settings());
            group.bench_function(format!("{threads} threads"), |bencher| {
                bencher.iter_batched(
                    planner,
                    |mut planner| planner.decide(&machine, black_box(&facts)),
                    BatchSize::SmallInput,
                );
            });
        }
        group.finish();
    }
}

/// Busy readers of files, four per file, and four processes with memory on two nodes each.
fn facts(machine: &Machine, threads: u32, data: &dyn Fn(u32) -> usize) -> Facts {
    let nodes = machine.nodes.len();
    let cpus: CpuSet = machine
        .nodes
        .iter()
        .flat_map(|node| node.cpus.iter().copied())
        .collect();
    let mut window = Window::empty(machine, 0, 0, 1_000_000_000);
    let mut files: Vec<FileFacts> = Vec::new();
    for number in 0..threads {
        let key = ThreadKey {
            process_id: 100 + number / 28,
            thread_id: number,
            start_ticks: 1,
        };
        let (node, on) = (number as usize % nodes, data(number));
        let mut facts = ThreadFacts::idle(key, machine.nodes[node].id, nodes, cpus.clone());
        facts.read_bytes[on] = 300_000_000;
        facts.busy_ns = 900_000_000;
        let file = FileKey {
            volume: 0,
            inode: u64::from(number / 4),
        };
        facts.files = vec![FileUse {
            file,
            read_bytes: 300_000_000,
            written_bytes: 0,
        }];
        if number % 4 == 0 {
            let mut bytes_on = vec![0; nodes];
            bytes_on[on] = 50_000_000;
            files.push(FileFacts {
                file,
                bytes: 50_000_000,
                bytes_on,
                read_bytes: vec![vec![0; nodes]; nodes],
                written_bytes: 0,
                replicas: vec![false; nodes],
            });
        }
        if let Some(file) = files.last_mut() {
            file.read_bytes[node][on] += 300_000_000;
        }
        window.threads.push(facts);
    }
    let medium = |node: &Node| MediumFacts {
        node: node.id,
        measured: Default::default(),
        free_bytes: None,
        striped_files: None,
    };
    Facts {
        accesses: accesses(machine),
        media: machine.nodes.iter().map(medium).collect(),
        files,
        window,
        memories: Vec::new(),
        kinds: Vec::new(),
    }
}

fn accesses(machine: &Machine) -> AccessWindow {
    let mut window = AccessWindow {
        number: 0,
        end_ns: 1_000_000_000,
        ..AccessWindow::default()
    };
    for (number, on) in [[3, 6], [0, 5], [2, 7], [1, 4]].iter().enumerate() {
        let mut accesses_s = vec![0.0; machine.nodes.len()];
        on.iter()
            .for_each(|node| accesses_s[*node] = 1e7 * (number + 1) as f64);
        let entry = |node: &usize| NodeAccesses {
            node: machine.nodes[*node].id,
            threads: 4,
            pinned: false,
            accesses_s: accesses_s.clone(),
            resident_bytes: 1_000_000_000,
        };
        window.processes.push(ProcessAccesses {
            process: ProcessKey {
                process_id: number as u32,
                start_ticks: 1,
            },
            nodes: on.iter().map(entry).collect(),
            running_ns: 1_000_000_000_000,
            ..ProcessAccesses::default()
        });
    }
    window
}

criterion_group!(benches, decisions);
criterion_main!(benches);
