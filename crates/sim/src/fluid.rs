//! What every thread gets at one moment: operations/s, all resources shared max-min fairly by bytes.
//!
//! A thread alternates computing and one access at a time, so alone it does `1 / (think + access + idle)`
//! operations/s. Resources that are asked for more than they have hold it back. How many are then at a memory at
//! once decides what that memory gives (its concurrency curve), and the cache lines that they keep on their way
//! fill the queue in front of it: a fixed point, found by repeating.
//!
//! **Head-of-line blocking.** A controller's queue holds so many lines, of whatever memory stands behind it, and
//! takes them in turn (PATS §III-B5). When more are on their way, each waits until those before it are through:
//!
//! ```text
//!   wait = (lines on their way - lines the queue holds) / lines that go through per second
//! ```
//!
//! Slow memory with many accessors makes few lines go through, and fast memory waits with it.

use egeria_machine::fair::{Flow, max_min_shares};

use crate::demand::{Control, Crowd, Demand, Operation, operation};
use crate::model::{Model, NS_PER_S};

/// Most rounds of the fixed point. Most settle in twenty; where far more lines are on their way than a queue holds,
/// half steps alone would take thousands, and what is left is extrapolated.
const ROUNDS: usize = 2000;
/// So many half steps between two extrapolations.
const HALF_STEPS: usize = 8;
/// Steps shrink by the same factor when two factors in a row are so near to each other.
const SAME_FACTOR: f64 = 0.01;
/// A round that changes no crowd by more than this part is the last.
const SETTLED: f64 = 1e-9;
/// Waits are looked for no longer than this, ns.
const LONGEST_WAIT_NS: f64 = 1e9;

/// What one thread gets.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Rate {
    /// Operations/s.
    pub(crate) operations_s: f64,
    /// Share of time it is on a core: computing, accessing, waiting for memory.
    pub(crate) busy_share: f64,
}

/// Threads that do the same from the same node.
struct Alike {
    demand: Demand,
    count: f64,
}

/// What each of the threads gets.
pub(crate) fn rates(model: &Model, control: &Control, demands: &[Demand]) -> Vec<Rate> {
    let (alike, of) = merge(demands);
    let capacities = model.capacities(f64::from(control.delegates), &control.turns);
    let mut crowd = Crowd {
        accessors: vec![1.0; model.places.len()],
        wait_ns: vec![0.0; model.queue_lines.len()],
    };
    let describe = |crowd: &Crowd| -> Vec<Operation> {
        let of = |alike: &Alike| operation(model, control, &alike.demand, crowd);
        alike.iter().map(of).collect()
    };
    let mut operations = describe(&crowd);
    let mut shares = share(&capacities, &alike, &operations);
    let mut trail: Vec<Crowd> = Vec::new();
    for _ in 0..ROUNDS {
        let next = meet(model, control, &alike, &operations, &shares);
        trail.push(crowd.clone());
        let change = crowd.approach(&next);
        if trail.len() == HALF_STEPS {
            crowd.extrapolate(&trail[HALF_STEPS - 3..]);
            trail.clear();
        }
        operations = describe(&crowd);
        shares = share(&capacities, &alike, &operations);
        if change < SETTLED {
            break;
        }
    }
    let busy = busy_shares(model, &alike, &operations, &shares);
    let rate = |index: &usize| Rate {
        operations_s: shares[*index],
        busy_share: busy[*index],
    };
    of.iter().map(rate).collect()
}

impl Crowd {
    /// Half of the way to another; the largest change, relative.
    fn approach(&mut self, next: &Crowd) -> f64 {
        let mut change: f64 = 0.0;
        let accessors = self.accessors.iter_mut().zip(&next.accessors);
        let waits = self.wait_ns.iter_mut().zip(&next.wait_ns);
        for (before, now) in accessors.chain(waits) {
            let middle = (*before + now) / 2.0;
            change = change.max((middle - *before).abs() / middle.abs().max(1.0));
            *before = middle;
        }
        change
    }

    /// Where steps that shrink by the same factor would end (Aitken), from the three places before this one. Only what
    /// comes nearer slowly, steadily and without turning is moved.
    fn extrapolate(&mut self, trail: &[Crowd]) {
        let end = |now: &mut f64, trail: [f64; 3], least: f64| {
            let steps = [trail[1] - trail[0], trail[2] - trail[1], *now - trail[2]];
            let (before, factor) = (steps[1] / steps[0], steps[2] / steps[1]);
            if (0.5..0.99999).contains(&factor) && (factor - before).abs() < SAME_FACTOR {
                let ahead = steps[2] * factor / (1.0 - factor);
                *now = (*now + ahead).clamp(least, LONGEST_WAIT_NS);
            }
        };
        for (index, now) in self.accessors.iter_mut().enumerate() {
            end(now, [0, 1, 2].map(|at| trail[at].accessors[index]), 1.0);
        }
        for (index, now) in self.wait_ns.iter_mut().enumerate() {
            end(now, [0, 1, 2].map(|at| trail[at].wait_ns[index]), 0.0);
        }
    }
}

/// Demands that are the same, once; and for each demand which that is.
fn merge(demands: &[Demand]) -> (Vec<Alike>, Vec<usize>) {
    let mut alike: Vec<Alike> = Vec::new();
    let of = demands.iter().map(|demand| {
        // Threads of a group stand beside each other: the last ones first.
        let known = alike.iter().rposition(|each| each.demand == *demand);
        let index = known.unwrap_or_else(|| {
            alike.push(Alike {
                demand: demand.clone(),
                count: 0.0,
            });
            alike.len() - 1
        });
        alike[index].count += 1.0;
        index
    });
    let of = of.collect();
    (alike, of)
}

/// Operations/s of one thread of each kind. Those in lockstep are one flow: an operation of each of them.
fn share(capacities: &[f64], alike: &[Alike], operations: &[Operation]) -> Vec<f64> {
    let mut flows: Vec<Flow> = Vec::new();
    let mut of = Vec::with_capacity(alike.len());
    let mut bands: Vec<(usize, usize)> = Vec::new();
    for (each, operation) in alike.iter().zip(operations) {
        let band = each.demand.lockstep;
        let known = bands.iter().find(|(other, _)| Some(*other) == band);
        let index = known.map_or(flows.len(), |(_, flow)| *flow);
        if index == flows.len() {
            bands.extend(band.map(|band| (band, index)));
            flows.push(Flow {
                uses: Vec::new(),
                most: f64::INFINITY,
                weight: operation.flow.weight,
            });
        }
        let flow = &mut flows[index];
        let uses = operation.flow.uses.iter();
        flow.uses
            .extend(uses.map(|(resource, amount)| (*resource, amount * each.count)));
        flow.most = flow.most.min(operation.flow.most);
        of.push(index);
    }
    let rates = max_min_shares(capacities, &flows);
    of.into_iter().map(|flow| rates[flow]).collect()
}

/// Share of time a thread of each kind is on a core. Held back by memory it waits on its core, as far as the node
/// has cores for all who do.
fn busy_shares(
    model: &Model,
    alike: &[Alike],
    operations: &[Operation],
    shares: &[f64],
) -> Vec<f64> {
    let waits = waits_for_core(model, alike, operations, shares);
    let mut sums = vec![0.0; model.node_count()];
    let mut busy = Vec::with_capacity(alike.len());
    for (index, each) in alike.iter().enumerate() {
        let share: f64 = match waits[index] {
            true => shares[index] * operations[index].busy_ns / NS_PER_S,
            false => 1.0 - shares[index] * operations[index].away_ns / NS_PER_S,
        };
        let share = share.clamp(0.0, 1.0);
        sums[each.demand.home] += share * each.count;
        busy.push(share);
    }
    for (each, share) in alike.iter().zip(&mut busy) {
        let home = each.demand.home;
        *share *= (model.cores(home) / sums[home].max(1e-12)).min(1.0);
    }
    busy
}

/// Whether it is for a core that each kind waits.
fn waits_for_core(
    model: &Model,
    alike: &[Alike],
    operations: &[Operation],
    shares: &[f64],
) -> Vec<bool> {
    let nodes = model.node_count();
    let mut used = vec![0.0; nodes];
    for ((each, operation), rate) in alike.iter().zip(operations).zip(shares) {
        // Delegates need cores of their own nodes.
        let uses = operation.flow.uses.iter();
        for (core, amount) in uses.filter(|(resource, _)| *resource < nodes) {
            used[*core] += each.count * rate * amount;
        }
    }
    let is_full = |node: usize| used[node] >= model.cores(node) * (1.0 - 1e-9);
    alike.iter().map(|each| is_full(each.demand.home)).collect()
}

/// Who is at a memory at once, in the mean, and the lines they have on their way.
#[derive(Clone, Copy, Default)]
struct Present {
    threads: f64,
    lines: f64,
}

impl Present {
    fn add(&mut self, threads: f64, lines: f64) {
        self.threads += threads;
        self.lines += threads * lines;
    }

    fn at_most(self, threads: f64) -> Present {
        let part = (threads / self.threads.max(1e-12)).min(1.0);
        Present {
            threads: self.threads * part,
            lines: self.lines * part,
        }
    }
}

/// The crowd that these rates make. A thread that is not computing and not waiting for a core is at a memory, or
/// waits for its turn or for delegates; of each node no more than it has cores.
fn meet(
    model: &Model,
    control: &Control,
    alike: &[Alike],
    operations: &[Operation],
    shares: &[f64],
) -> Crowd {
    let waits = waits_for_core(model, alike, operations, shares);
    let places = model.places.len();
    // From each node, with and without turns to wait for; and delegates.
    let mut own = vec![[Present::default(); 2]; model.node_count() * places];
    let mut delegates = vec![Present::default(); places];
    let mut lines_s = vec![0.0; places];
    for (index, (each, operation)) in alike.iter().zip(operations).enumerate() {
        let rate = shares[index];
        // Who waits for others in lockstep is nowhere.
        let at_own = match waits[index] || each.demand.lockstep.is_some() {
            true => rate * operation.at_memory_ns / NS_PER_S,
            false => {
                let elsewhere_ns = operation.busy_ns - operation.at_memory_ns + operation.away_ns;
                (1.0 - rate * elsewhere_ns / NS_PER_S).max(0.0)
            }
        };
        for at in &operation.at {
            lines_s[at.place] += each.count * rate * at.lines_moved;
            if at.delegated {
                let threads = each.count * rate * at.time_ns / NS_PER_S;
                delegates[at.place].add(threads, at.lines);
            } else {
                let part = at.time_ns / operation.at_memory_ns.max(1e-12);
                let turns = usize::from(each.demand.takes_turns);
                let from = &mut own[each.demand.home * places + at.place][turns];
                from.add(each.count * at_own * part, at.lines);
            }
        }
    }
    let present = |place: usize| {
        let limit = control.turns[place].unwrap_or(f64::INFINITY);
        let most_delegates = f64::from(control.delegates);
        let mut all = delegates[place].at_most(most_delegates);
        let mut in_turn = Present::default();
        for home in 0..model.node_count() {
            let [free, turns] = own[home * places + place];
            let cores = model.cores(home);
            let part = (cores / (free.threads + turns.threads).max(1e-12)).min(1.0);
            all.threads += free.threads * part;
            all.lines += free.lines * part;
            in_turn.threads += turns.threads * part;
            in_turn.lines += turns.lines * part;
        }
        let in_turn = in_turn.at_most(limit);
        all.threads += in_turn.threads;
        all.lines += in_turn.lines;
        all
    };
    let present: Vec<Present> = (0..places).map(present).collect();
    Crowd {
        accessors: present.iter().map(|all| all.threads.max(1.0)).collect(),
        wait_ns: waits_in_queues(model, &present, &lines_s),
    }
}

fn waits_in_queues(model: &Model, present: &[Present], lines_s: &[f64]) -> Vec<f64> {
    let wait = |(queue, holds): (usize, &f64)| {
        let stands = |place: &usize| model.places[*place].queues.contains(&queue);
        let places = || (0..present.len()).filter(stands);
        let lines: f64 = places().map(|place| present[place].lines).sum();
        let through_s: f64 = places().map(|place| lines_s[place]).sum();
        match lines > *holds {
            true => ((lines - holds) / through_s.max(1e-9) * NS_PER_S).min(LONGEST_WAIT_NS),
            false => 0.0,
        }
    };
    model.queue_lines.iter().enumerate().map(wait).collect()
}
