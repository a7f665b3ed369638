//! How long a placement takes, on the eight nodes of AsymSched's machine A.
//!
//! `cargo bench -p egeria-policy --bench placement_speed`

#![forbid(unsafe_code)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use egeria_facts::{AccessWindow, NodeAccesses, ProcessAccesses, ProcessKey};
use egeria_machine::Machine;
use egeria_policy::asymsched::{Settings, plan};

/// The nodes of each process, badly placed and well placed.
const LOADS: [(&str, &[&[usize]]); 8] = [
    (
        "8 clusters of 1",
        &[&[0], &[1], &[2], &[3], &[4], &[5], &[6], &[7]],
    ),
    (
        "2+2+2+2, well placed",
        &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]],
    ),
    (
        "2+2+2+2, badly placed",
        &[&[3, 6], &[0, 5], &[2, 7], &[1, 4]],
    ),
    ("3+3+2, badly placed", &[&[0, 3, 5], &[1, 4, 6], &[2, 7]]),
    ("5+3, badly placed", &[&[0, 1, 3, 5, 7], &[2, 4, 6]]),
    ("5+3, other way", &[&[0, 3, 5, 6, 7], &[1, 2, 4]]),
    ("3 of 8", &[&[0, 3, 5]]),
    (
        "8 clusters of 2 in a ring",
        &[
            &[0, 3],
            &[3, 6],
            &[6, 1],
            &[1, 4],
            &[4, 7],
            &[7, 2],
            &[2, 5],
            &[5, 0],
        ],
    ),
];

fn placements(criterion: &mut Criterion) {
    let machine = Machine::profile("bulldozer-8n").expect("it ships with Egeria");
    let settings = Settings::default();
    let mut group = criterion.benchmark_group("placement");
    for (name, nodes) in LOADS {
        let window = window(&machine, nodes);
        window.validate(&machine).expect("made to be valid");
        let made = plan(&machine, &window, &settings);
        let (considered, evaluated) = (made.search.considered, made.search.evaluated);
        println!(
            "{name}: {considered} considered, {evaluated} evaluated; {}",
            made.decision
        );
        group.bench_function(name, |bencher| {
            bencher.iter(|| plan(&machine, black_box(&window), &settings));
        });
    }
    group.finish();
}

/// Busy processes, the later the more; 1 GB on each node.
fn window(machine: &Machine, processes: &[&[usize]]) -> AccessWindow {
    let mut window = AccessWindow {
        number: 1,
        end_ns: 1_000_000_000,
        ..AccessWindow::default()
    };
    for (number, nodes) in processes.iter().enumerate() {
        let rate = 10f64.powf(6.5 + number as f64 / 3.0);
        let mut rates = vec![0.0; machine.nodes.len()];
        nodes.iter().for_each(|node| rates[*node] = rate);
        let on = |node: &usize| NodeAccesses {
            node: machine.nodes[*node].id,
            threads: 8,
            pinned: false,
            accesses_s: rates.clone(),
            resident_bytes: 1_000_000_000,
        };
        window.processes.push(ProcessAccesses {
            process: ProcessKey {
                process_id: number as u32,
                start_ticks: 1,
            },
            nodes: nodes.iter().map(on).collect(),
            running_ns: 1_000_000_000_000,
            ..ProcessAccesses::default()
        });
    }
    window
}

criterion_group!(benches, placements);
criterion_main!(benches);
