//! Threads of the fluid model, as they come.

use proptest::prelude::*;

use super::fluid::{Fluid, Worker};
use super::machine;

/// What a thread's data is: on one node, often the same for all, or on two.
fn data(nodes: usize, hot: usize) -> impl Strategy<Value = Vec<f64>> {
    let one = prop_oneof![Just(hot), 0..nodes];
    (one, 0..nodes, prop_oneof![3 => Just(1.0), 1 => 0.0..1.0]).prop_map(
        move |(one, two, share)| {
            let mut data = vec![0.0; nodes];
            data[one] += share;
            data[two] += 1.0 - share;
            data
        },
    )
}

fn worker(nodes: usize, hot: usize) -> impl Strategy<Value = Worker> {
    let reads = prop::sample::select(vec![1.0, 0.98, 0.8, 0.6, 0.4, 0.2, 0.0]);
    let block = prop::sample::select(vec![1024, 4096, 16_384, 65_536]);
    let idle_ns = prop_oneof![Just(0.0), 0.0..20_000.0];
    let flags = (prop::bool::weighted(0.15), prop::bool::weighted(0.05));
    let pace = (block, 300.0..5000.0, idle_ns);
    (0..nodes, data(nodes, hot), reads, pace, flags).prop_map(
        move |(node, data, reads, (block, compute_ns, idle_ns), (is_shared, pinned))| Worker {
            data,
            block,
            compute_ns,
            idle_ns,
            is_shared,
            pinned,
            ..Worker::fio(0, node, nodes, reads)
        },
    )
}

/// Up to eight threads per node of four cores, of many kinds or all of one.
pub fn fluid() -> impl Strategy<Value = Fluid> {
    let shape = (2..=8_usize).prop_flat_map(|nodes| (Just(nodes), 0..nodes));
    let workers = shape.prop_flat_map(|(nodes, hot)| {
        let threads = prop::collection::vec(worker(nodes, hot), 1..nodes * 8);
        (Just(nodes), threads, prop::bool::weighted(0.3))
    });
    workers.prop_map(|(nodes, mut workers, alike)| {
        for index in 0..workers.len() {
            let node = workers[index].node;
            if alike {
                workers[index] = workers[0].clone();
            }
            workers[index].node = node;
            workers[index].number = index as u32;
        }
        Fluid::new(machine(nodes), workers)
    })
}
