//! What every thread gets at one moment: operations/s, all resources shared max-min fairly by bytes.
//!
//! A thread alternates computing and one access at a time, so alone it does `1 / (think + access + idle)`
//! operations/s. Resources that are asked for more than they have hold it back, and how many are then at a
//! medium at once decides what that medium gives (its concurrency curve): a fixed point, found by
//! repeating.

use egeria_machine::AccessKind;
use egeria_machine::fair::{Flow, max_min_shares};

use crate::model::{Access, Model, NS_PER_S};

/// Rounds of the fixed point; each halves what is left of the error.
const ROUNDS: usize = 12;

/// What one thread does per operation now.
pub(crate) struct Demand {
    /// Position of the node it runs on.
    pub(crate) home: usize,
    /// Bytes of an operation.
    pub(crate) request_bytes: u64,
    /// Computing, ns.
    pub(crate) think_ns: f64,
    /// Waiting off the core, ns.
    pub(crate) idle_ns: f64,
    /// Share of operations that read from each node; what the cache serves included.
    pub(crate) reads: Vec<f64>,
    /// Share of operations that write to each node.
    pub(crate) writes: Vec<f64>,
    /// Bytes that the threads of its node read from, all together.
    pub(crate) working_set_bytes: f64,
}

/// What one thread gets.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Rate {
    /// Operations/s.
    pub(crate) operations_s: f64,
    /// Share of time it is on a core: computing, accessing, waiting for memory.
    pub(crate) busy_share: f64,
}

/// An operation of a thread in the mean, with so many accessors at each medium.
struct Operation {
    /// Time on the core when nobody is in the way, ns.
    busy_ns: f64,
    /// Time of that at each node's medium, ns.
    at_medium_ns: Vec<f64>,
    flow: Flow,
}

/// What each of the threads gets.
pub(crate) fn rates(model: &Model, demands: &[Demand]) -> Vec<Rate> {
    let capacities = model.capacities();
    let mut accessors = vec![1.0; model.node_count()];
    let mut operations = describe(model, demands, &accessors);
    let mut shares = share(&capacities, &operations);
    for _ in 0..ROUNDS {
        let now = count_accessors(model, demands, &operations, &shares);
        for (before, now) in accessors.iter_mut().zip(now) {
            *before = (*before + now.max(1.0)) / 2.0;
        }
        operations = describe(model, demands, &accessors);
        shares = share(&capacities, &operations);
    }
    let busy = busy_shares(model, demands, &operations, &shares);
    let both = shares.into_iter().zip(busy);
    both.map(|(operations_s, busy_share)| Rate {
        operations_s,
        busy_share,
    })
    .collect()
}

/// Share of time each thread is on a core. Held back by memory it waits on its core, as far as the node
/// has cores for all who do.
fn busy_shares(
    model: &Model,
    demands: &[Demand],
    operations: &[Operation],
    shares: &[f64],
) -> Vec<f64> {
    let waits = waits_for_core(model, demands, operations, shares);
    let mut sums = vec![0.0; model.node_count()];
    let mut busy = Vec::with_capacity(demands.len());
    for (index, demand) in demands.iter().enumerate() {
        let share: f64 = match waits[index] {
            true => shares[index] * operations[index].busy_ns / NS_PER_S,
            false => 1.0 - shares[index] * demand.idle_ns / NS_PER_S,
        };
        sums[demand.home] += share.clamp(0.0, 1.0);
        busy.push(share.clamp(0.0, 1.0));
    }
    for (demand, share) in demands.iter().zip(&mut busy) {
        *share *= (model.cores(demand.home) / sums[demand.home].max(1e-12)).min(1.0);
    }
    busy
}

fn share(capacities: &[f64], operations: &[Operation]) -> Vec<f64> {
    let flows: Vec<Flow> = operations
        .iter()
        .map(|operation| operation.flow.clone())
        .collect();
    max_min_shares(capacities, &flows)
}

fn describe(model: &Model, demands: &[Demand], accessors: &[f64]) -> Vec<Operation> {
    let of = |demand| operation(model, demand, accessors);
    demands.iter().map(of).collect()
}

fn operation(model: &Model, demand: &Demand, accessors: &[f64]) -> Operation {
    let nodes = model.node_count();
    let cached = model.cached_share(demand.home, demand.working_set_bytes);
    let mut at_medium_ns = vec![0.0; nodes];
    let mut uses: Vec<(usize, f64)> = Vec::new();
    let mut busy_ns = demand.think_ns;
    let read_share: f64 = demand.reads.iter().sum();
    busy_ns += read_share * cached * model.cached_ns(demand.home, demand.request_bytes);
    for memory in 0..nodes {
        let kinds = [
            (AccessKind::Read, demand.reads[memory] * (1.0 - cached)),
            (AccessKind::Write, demand.writes[memory]),
        ];
        for (kind, share) in kinds.into_iter().filter(|(_, share)| *share > 0.0) {
            let access = Access {
                kind,
                home: demand.home,
                memory,
                bytes: demand.request_bytes,
            };
            at_medium_ns[memory] += share * model.undisturbed_ns(&access, accessors[memory]);
            let service_s = model.service_ns(&access, accessors[memory]) / NS_PER_S;
            uses.push((model.medium_resource(memory), share * service_s));
            let lanes = model.lane_resources(kind, demand.home, memory);
            uses.extend(lanes.map(|lane| (lane, share * demand.request_bytes as f64)));
        }
    }
    busy_ns += at_medium_ns.iter().sum::<f64>();
    uses.push((model.core_resource(demand.home), busy_ns / NS_PER_S));
    Operation {
        busy_ns,
        at_medium_ns,
        flow: Flow {
            uses,
            most: NS_PER_S / (busy_ns + demand.idle_ns).max(1e-3),
            // By bytes: who asks for more at once gets no more.
            weight: 1.0 / demand.request_bytes as f64,
        },
    }
}

/// Whether it is for a core that each thread waits.
fn waits_for_core(
    model: &Model,
    demands: &[Demand],
    operations: &[Operation],
    shares: &[f64],
) -> Vec<bool> {
    let mut used = vec![0.0; model.node_count()];
    for ((demand, operation), rate) in demands.iter().zip(operations).zip(shares) {
        used[demand.home] += rate * operation.busy_ns / NS_PER_S;
    }
    let is_full = |node: usize| used[node] >= model.cores(node) * (1.0 - 1e-9);
    demands.iter().map(|demand| is_full(demand.home)).collect()
}

/// How many threads are at each medium at once, in the mean. A thread that is not computing and not
/// waiting for a core is at a medium; of each node no more than it has cores.
fn count_accessors(
    model: &Model,
    demands: &[Demand],
    operations: &[Operation],
    shares: &[f64],
) -> Vec<f64> {
    let nodes = model.node_count();
    let waits = waits_for_core(model, demands, operations, shares);
    // from[home][memory]
    let mut from = vec![vec![0.0; nodes]; nodes];
    for (index, (demand, operation)) in demands.iter().zip(operations).enumerate() {
        let at_medium_ns: f64 = operation.at_medium_ns.iter().sum();
        if at_medium_ns <= 0.0 {
            continue;
        }
        let rate = shares[index];
        let present = match waits[index] {
            true => rate * at_medium_ns / NS_PER_S,
            false => {
                let elsewhere_ns = operation.busy_ns - at_medium_ns + demand.idle_ns;
                (1.0 - rate * elsewhere_ns / NS_PER_S).max(0.0)
            }
        };
        for (memory, part_ns) in operation.at_medium_ns.iter().enumerate() {
            from[demand.home][memory] += present * part_ns / at_medium_ns;
        }
    }
    let most = |home: usize, count: f64| count.min(model.cores(home));
    (0..nodes)
        .map(|memory| (0..nodes).map(|home| most(home, from[home][memory])).sum())
        .collect()
}
