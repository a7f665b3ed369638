//! How long a placement takes: the median over runs, on the eight nodes of AsymSched's machine A.
//!
//! `cargo run --release -p egeria-policy --example placement_speed`

#![forbid(unsafe_code)]

use std::time::Instant;

use egeria_facts::{AccessWindow, NodeAccesses, ProcessAccesses, ProcessKey};
use egeria_machine::Machine;
use egeria_policy::asymsched::{Settings, plan};

const RUNS: usize = 1001;

fn main() {
    let machine = Machine::profile("bulldozer-8n").expect("it ships with Egeria");
    // The nodes of each process, badly placed and well placed.
    let loads: [(&str, &[&[usize]]); 8] = [
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
    for (name, nodes) in loads {
        let window = window(&machine, nodes);
        window.validate(&machine).expect("made to be valid");
        let mut times_ns: Vec<u128> = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let begin = Instant::now();
            std::hint::black_box(plan(
                &machine,
                std::hint::black_box(&window),
                &Settings::default(),
            ));
            times_ns.push(begin.elapsed().as_nanos());
        }
        times_ns.sort_unstable();
        let plan = plan(&machine, &window, &Settings::default());
        println!(
            "{name}: median {} us, 99 % within {} us; {} considered, {} evaluated; {}",
            times_ns[RUNS / 2] / 1000,
            times_ns[RUNS * 99 / 100] / 1000,
            plan.search.considered,
            plan.search.evaluated,
            plan.decision
        );
    }
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
