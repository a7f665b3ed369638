//! How long a plan takes, for 1,000 and 10,000 threads on 8 nodes.
//!
//! `cargo bench -p egeria-policy --bench plan_speed`

#![forbid(unsafe_code)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use egeria_facts::{CpuSet, ThreadFacts, ThreadKey, Window};
use egeria_machine::{CpuId, Machine, NodeId};
use egeria_policy::nthread::{Configuration, Settings, plan};

const NODES: usize = 8;
const CORES: usize = 48;

fn plans(criterion: &mut Criterion) {
    let machine = machine();
    for (name, is_hot) in [("spread data", false), ("all data on node 0", true)] {
        for threads in [1_000, 10_000] {
            let window = window(&machine, threads, is_hot);
            window.validate(&machine).expect("made to be valid");
            let mut group = criterion.benchmark_group(format!("{name}, {threads} threads"));
            for configuration in Configuration::ALL {
                let settings = Settings::of(configuration);
                group.bench_function(configuration.to_string(), |bencher| {
                    bencher.iter(|| plan(&machine, black_box(&window), &settings));
                });
            }
            group.finish();
        }
    }
}

/// Eight nodes with one DIMM each.
fn machine() -> Machine {
    let mut machine = Machine::profile("optane-2s").expect("it ships with Egeria");
    let (node, mut emulated) = (machine.nodes[0].clone(), machine.emulated.take());
    let declared = emulated.as_mut().expect("it is emulated");
    declared.nodes = vec![declared.nodes[0].clone(); NODES];
    machine.nodes = vec![node; NODES];
    for (index, node) in machine.nodes.iter_mut().enumerate() {
        node.id = NodeId(index as u16);
        let cpus = index * CORES..(index + 1) * CORES;
        node.cpus = cpus.map(|cpu| CpuId(cpu as u16)).collect();
    }
    machine.distances = vec![vec![21; NODES]; NODES];
    (0..NODES).for_each(|node| machine.distances[node][node] = 10);
    machine.emulated = emulated;
    machine
}

/// Busy threads of all kinds; 300 MB/s of reads each, so that all have a target.
fn window(machine: &Machine, threads: u32, is_hot: bool) -> Window {
    let cpus: CpuSet = (0..NODES * CORES).map(|cpu| CpuId(cpu as u16)).collect();
    let mut window = Window::empty(machine, 0, 0, 1_000_000_000);
    for number in 0..threads {
        let key = ThreadKey {
            process_id: number / 100,
            thread_id: number.wrapping_mul(2_654_435_761),
            start_ticks: u64::from(number),
        };
        let node = number as usize % NODES;
        let data = if is_hot {
            0
        } else {
            (number as usize / 8) % NODES
        };
        let mut facts = ThreadFacts::idle(key, NodeId(node as u16), NODES, cpus.clone());
        facts.read_bytes[data] = 300_000_000;
        facts.written_bytes[node] = u64::from(number % 50) * 1_000_000;
        facts.busy_ns = 500_000_000;
        window.threads.push(facts);
    }
    window
}

criterion_group!(benches, plans);
criterion_main!(benches);
