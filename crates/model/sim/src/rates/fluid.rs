//! What every thread gets at one moment: operations/s, all resources shared max-min fairly by bytes.
//!
//! A thread alternates computing and one access at a time, so alone it does `1 / (think + access + idle)`
//! operations/s. Resources that are asked for more than they have hold it back. How many are then at a memory at
//! once decides what that memory gives (its concurrency curve), and the cache lines that they keep on their way
//! fill the queue in front of it: a fixed point, found by repeating.
//!
//! **Head-of-line blocking.** A controller's queue holds a limited number of lines, of all memories behind it, and
//! takes them in turn (PATS §III-B5). Lines that are being served are not in it. When more wait, each waits until
//! those before it are through:
//!
//! ```text
//!   wait = (lines on their way - lines in service - lines the queue holds) / lines that go through per second
//! ```
//!
//! In service are, by Little's law, as many lines as go through in the time that one takes alone.
//!
//! Slow memory with many accessors makes few lines go through, and fast memory waits with it.

use egeria_machine::AccessKind;
use egeria_machine::costs::{AccessCosts, Crowd, MAX_WAIT_NS};
use egeria_machine::fair::{Flow, max_min_shares};

use crate::rates::access_time::{AccessTimes, Delegated};
use crate::rates::demand::{Control, Demand, Operation};
use crate::rates::model::{Model, NS_PER_S};

/// Most rounds of the fixed point. Most settle in twenty; where far more lines are on their way than a queue holds,
/// half steps alone would take thousands, and what is left is extrapolated.
const ROUNDS: usize = 2000;
/// This number of half steps between two extrapolations.
const HALF_STEPS: usize = 8;
/// Steps shrink by the same factor when two factors in a row differ by no more than this.
const SAME_FACTOR: f64 = 0.01;
/// Rounds after which steps are halved, unless the largest change has become smaller since.
const PATIENCE: usize = 24;
/// What the largest change must have become smaller by.
const PROGRESS: f64 = 0.9;
/// The smallest part of a step that is made.
const MIN_STEP: f64 = 1.0 / 256.0;
/// A round that changes no crowd by more than this part is the last.
const SETTLED: f64 = 1e-9;

/// What one thread gets.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Rate {
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
    let locks = demands.iter().filter_map(|demand| demand.lock);
    let locks = locks.max().map_or(0, |last| last + 1);
    let capacities = model.capacities(f64::from(control.delegates), &control.turns, locks);
    let mut times = AccessTimes::new(
        model,
        Crowd {
            accessors: vec![1.0; model.costs.places.len()],
            wait_ns: vec![0.0; model.costs.queue_lines.len()],
            written_shares: vec![0.0; model.costs.places.len()],
            shared_reads: shared_reads(model, control, &alike),
        },
    );
    let mut operations: Vec<Operation> = alike.iter().map(|_| Operation::default()).collect();
    let mut flows = Flows::of(&alike);
    let mut shares = Vec::new();
    let mut share = |times: &mut AccessTimes<'_>, operations: &mut [Operation], shares: &mut _| {
        for (alike, operation) in alike.iter().zip(&mut *operations) {
            operation.describe(model, control, &alike.demand, times);
        }
        flows.share(&capacities, &alike, operations, shares);
    };
    share(&mut times, &mut operations, &mut shares);
    let mut trail: Vec<Crowd> = Vec::new();
    let mut pace = Pace::default();
    for _ in 0..ROUNDS {
        let next = meet(model, control, &alike, &operations, &shares);
        trail.push(times.crowd().clone());
        let queued = queue_up(
            &mut times.delegated,
            &alike,
            &operations,
            &shares,
            pace.step,
        );
        let change = times.change(|crowd| approach(crowd, &next, pace.step));
        let change = change.max(queued);
        let goes_on = pace.adapt(change);
        if trail.len() == HALF_STEPS {
            times.change(|crowd| extrapolate(crowd, &trail[HALF_STEPS - 3..]));
            trail.clear();
        }
        share(&mut times, &mut operations, &mut shares);
        if change < SETTLED || !goes_on {
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

/// How far each round goes. Where a little more of one thing makes much less of another, half steps go to and fro
/// for ever, and shorter ones settle. Where something jumps (a node's cores are just full, or just not), the smallest
/// steps go to and fro about the jump, and the answer is there.
struct Pace {
    step: f64,
    /// The largest change in the rounds before, and in these.
    before: f64,
    now: f64,
    rounds: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            step: 0.5,
            before: f64::INFINITY,
            now: 0.0,
            rounds: 0,
        }
    }
}

impl Pace {
    /// Whether another round may come nearer.
    fn adapt(&mut self, change: f64) -> bool {
        self.now = self.now.max(change);
        self.rounds += 1;
        if self.rounds < PATIENCE {
            return true;
        }
        let is_stuck = self.now > self.before * PROGRESS;
        (self.before, self.now, self.rounds) = (self.now, 0.0, 0);
        if is_stuck && self.step <= MIN_STEP {
            return false;
        }
        if is_stuck {
            self.step /= 2.0;
        }
        true
    }
}

/// Delegated operations at each resource with these rates: part of the way there; the largest change that half of the
/// way would be, relative.
fn queue_up(
    delegated: &mut [Delegated],
    alike: &[Alike],
    operations: &[Operation],
    shares: &[f64],
    step: f64,
) -> f64 {
    let mut change: f64 = 0.0;
    for (resource, queue) in delegated.iter_mut().enumerate() {
        let mut next = Delegated::default();
        for ((each, operation), rate) in alike.iter().zip(operations).zip(shares) {
            let there_ns = operation.delegated_ns[resource];
            if there_ns > 0.0 {
                next.present += each.count * rate * there_ns / NS_PER_S;
                next.callers += each.count;
            }
        }
        let half = (next.present - queue.present) / 2.0;
        change = change.max(half.abs() / (queue.present + half).abs().max(1.0));
        queue.present += (next.present - queue.present) * step;
        queue.callers = next.callers;
    }
    change
}

/// Part of the way to another; the largest change that half of the way would be, relative.
fn approach(crowd: &mut Crowd, next: &Crowd, step: f64) -> f64 {
    let mut change: f64 = 0.0;
    let accessors = crowd.accessors.iter_mut().zip(&next.accessors);
    let waits = crowd.wait_ns.iter_mut().zip(&next.wait_ns);
    let shares = crowd.written_shares.iter_mut().zip(&next.written_shares);
    for (before, now) in accessors.chain(waits).chain(shares) {
        let middle = (*before + now) / 2.0;
        change = change.max((middle - *before).abs() / middle.abs().max(1.0));
        *before += (now - *before) * step;
    }
    change
}

/// Where steps that shrink by the same factor would end (Aitken), from the three places before this one. Only what
/// comes nearer slowly, steadily and without turning is moved.
fn extrapolate(crowd: &mut Crowd, trail: &[Crowd]) {
    let end = |now: &mut f64, trail: [f64; 3], least: f64| {
        let steps = [trail[1] - trail[0], trail[2] - trail[1], *now - trail[2]];
        let (before, factor) = (steps[1] / steps[0], steps[2] / steps[1]);
        if (0.5..0.99999).contains(&factor) && (factor - before).abs() < SAME_FACTOR {
            let ahead = steps[2] * factor / (1.0 - factor);
            *now = (*now + ahead).clamp(least, MAX_WAIT_NS);
        }
    };
    for (index, now) in crowd.accessors.iter_mut().enumerate() {
        end(now, [0, 1, 2].map(|at| trail[at].accessors[index]), 1.0);
    }
    for (index, now) in crowd.wait_ns.iter_mut().enumerate() {
        end(now, [0, 1, 2].map(|at| trail[at].wait_ns[index]), 0.0);
    }
}

/// Memories that threads of more than one node read themselves.
fn shared_reads(model: &Model, control: &Control, alike: &[Alike]) -> Vec<bool> {
    let is_read = |place: usize| {
        let reads = alike.iter().map(|each| &each.demand).filter(|demand| {
            let delegated = demand.is_delegated(AccessKind::Read) && control.delegates > 0;
            demand.reads[place] > 0.0 && !delegated
        });
        let mut homes: Vec<usize> = reads.map(|demand| demand.home).collect();
        homes.sort_unstable();
        homes.dedup();
        homes.len() > 1
    };
    (0..model.costs.places.len()).map(is_read).collect()
}

/// Demands that are the same, once; and for each demand which that is.
fn merge(demands: &[Demand]) -> (Vec<Alike>, Vec<usize>) {
    let mut alike: Vec<Alike> = Vec::new();
    let of = demands.iter().map(|demand| {
        // Threads of a group are next to each other: search from the last.
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

/// What shares resources: threads of a kind, and those in lockstep together, an operation of each of them.
struct Flows {
    flows: Vec<Flow>,
    /// The flow of each kind.
    of: Vec<usize>,
}

impl Flows {
    fn of(alike: &[Alike]) -> Flows {
        let mut bands: Vec<(usize, usize)> = Vec::new();
        let mut count = 0;
        let flow = |each: &Alike| {
            let band = each.demand.lockstep;
            let known = bands.iter().find(|(other, _)| Some(*other) == band);
            known.map(|(_, flow)| *flow).unwrap_or_else(|| {
                bands.extend(band.map(|band| (band, count)));
                count += 1;
                count - 1
            })
        };
        let of = alike.iter().map(flow).collect();
        Flows {
            flows: vec![Flow::default(); count],
            of,
        }
    }

    /// Operations/s of one thread of each kind.
    fn share(
        &mut self,
        capacities: &[f64],
        alike: &[Alike],
        operations: &[Operation],
        shares: &mut Vec<f64>,
    ) {
        for flow in &mut self.flows {
            flow.uses.clear();
            flow.most = f64::INFINITY;
        }
        let kinds = alike.iter().zip(operations).zip(&self.of);
        for ((each, operation), index) in kinds {
            let flow = &mut self.flows[*index];
            // Of those in lockstep the first says.
            if flow.uses.is_empty() {
                flow.weight = operation.flow.weight;
            }
            let uses = operation.flow.uses.iter();
            flow.uses
                .extend(uses.map(|(resource, amount)| (*resource, amount * each.count)));
            flow.most = flow.most.min(operation.flow.most);
        }
        let rates = max_min_shares(capacities, &self.flows);
        shares.clear();
        shares.extend(self.of.iter().map(|flow| rates[*flow]));
    }
}

/// Share of time a thread of each kind is on a core: computing, at a memory, and held back there.
fn busy_shares(
    model: &Model,
    alike: &[Alike],
    operations: &[Operation],
    shares: &[f64],
) -> Vec<f64> {
    let held = held_shares(model, alike, operations, shares);
    let kinds = operations.iter().zip(shares).zip(held);
    let share = |((operation, rate), held): ((&Operation, &f64), f64)| {
        (rate * operation.busy_ns / NS_PER_S + held).clamp(0.0, 1.0)
    };
    kinds.map(share).collect()
}

/// Share of time that each kind is held back on its core by a busy resource: a memory, a link, a turn, delegates. This
/// is the time that its own work leaves, as far as the cores of its node have room for all such threads. In the rest
/// of the time it waits for a core. A thread that waits for a lock is on no core.
fn held_shares(
    model: &Model,
    alike: &[Alike],
    operations: &[Operation],
    shares: &[f64],
) -> Vec<f64> {
    let locks = alike.iter().filter_map(|each| each.demand.lock);
    let locks = locks.max().map_or(0, |last| last + 1);
    let mut used = vec![0.0; model.lock_resource(locks)];
    for ((each, operation), rate) in alike.iter().zip(operations).zip(shares) {
        // Delegates need cores of their own nodes.
        for (resource, amount) in &operation.flow.uses {
            used[*resource] += each.count * rate * amount;
        }
    }
    let is_full = |lock: usize| used[model.lock_resource(lock)] >= 1.0 - 1e-9;
    let kinds = alike.iter().zip(operations).zip(shares);
    let left = |((each, operation), rate): ((&Alike, &Operation), &f64)| {
        if each.demand.lock.is_some_and(is_full) {
            return 0.0;
        }
        let own_ns = operation.busy_ns + operation.away_ns;
        (1.0 - rate * own_ns / NS_PER_S).max(0.0)
    };
    let mut held: Vec<f64> = kinds.map(left).collect();
    let mut wanted = vec![0.0; model.node_count()];
    for (each, held) in alike.iter().zip(&held) {
        wanted[each.demand.home] += each.count * held;
    }
    for (each, held) in alike.iter().zip(&mut held) {
        let home = each.demand.home;
        let room = model.cores(home) - used[model.core_resource(home)];
        *held *= (room / wanted[home].max(1e-12)).clamp(0.0, 1.0);
    }
    held
}

/// Threads that are at a memory at once, in the mean, and their lines that are on their way and not being served.
#[derive(Clone, Copy, Default)]
struct Present {
    threads: f64,
    lines: f64,
}

impl Present {
    fn add(&mut self, threads: f64, lines: f64) {
        self.threads += threads;
        self.lines += lines;
    }

    fn at_most(self, threads: f64) -> Present {
        let part = (threads / self.threads.max(1e-12)).min(1.0);
        Present {
            threads: self.threads * part,
            lines: self.lines * part,
        }
    }
}

/// The crowd that these rates make. A thread that is not computing and not waiting for a core or a lock is at a
/// memory, or waits for its turn or for delegates.
fn meet(
    model: &Model,
    control: &Control,
    alike: &[Alike],
    operations: &[Operation],
    shares: &[f64],
) -> Crowd {
    let held_shares = held_shares(model, alike, operations, shares);
    let places = model.costs.places.len();
    // From each node, with and without turns to wait for; and delegates.
    let mut own = vec![[Present::default(); 2]; model.node_count() * places];
    let mut delegates = vec![Present::default(); places];
    let mut lines_s = vec![0.0; places];
    let mut written_lines_s = vec![0.0; places];
    let mut held_at = vec![0.0f64; places];
    // Of the delegates at each memory, those that nothing holds back.
    let mut unheld_delegates = vec![0.0; places];
    for (index, (each, operation)) in alike.iter().zip(operations).enumerate() {
        let rate = shares[index];
        // A thread that waits for others in lockstep is at no memory.
        let held_share = match each.demand.lockstep {
            Some(_) => 0.0,
            None => held_shares[index],
        };
        let at_own = rate * operation.at_memory_ns / NS_PER_S + held_share;
        let direct = operation.at.iter().filter(|at| !at.is_delegated());
        let unwaited_ns: f64 = direct.map(|at| at.unwaited_ns).sum();
        let unheld = rate * unwaited_ns / NS_PER_S / at_own.max(1e-12);
        let held = AccessCosts::held(unheld);
        for at in &operation.at {
            let moved_s = each.count * rate * at.lines_moved;
            lines_s[at.place] += moved_s;
            let in_service = moved_s * at.line_ns / NS_PER_S;
            if at.kind == AccessKind::Write {
                written_lines_s[at.place] += moved_s;
            }
            if at.is_delegated() {
                // While a thread is held back, delegates are in the middle of its pieces.
                let there = rate * at.time_ns / NS_PER_S + held_share * at.delegates;
                let threads = each.count * there;
                let waiting = (threads * at.lines - in_service).max(0.0);
                delegates[at.place].add(threads, waiting);
                unheld_delegates[at.place] += each.count * rate * at.unwaited_ns / NS_PER_S;
            } else {
                let part = at.time_ns / operation.at_memory_ns.max(1e-12);
                let turns = usize::from(each.demand.takes_turns);
                let from = &mut own[each.demand.home * places + at.place][turns];
                let threads = each.count * at_own * part;
                let waiting = (threads * at.lines - in_service).max(0.0);
                from.add(threads, waiting);
                held_at[at.place] = held.max(held_at[at.place]);
            }
        }
    }
    let max_delegates = f64::from(control.delegates);
    let present = |place: usize| {
        let limit = control.turns[place].unwrap_or(f64::INFINITY);
        let mut all = delegates[place].at_most(max_delegates);
        let mut in_turn = Present::default();
        for home in 0..model.node_count() {
            let [free, turns] = own[home * places + place];
            all.add(free.threads, free.lines);
            in_turn.add(turns.threads, turns.lines);
        }
        let in_turn = in_turn.at_most(limit);
        all.add(in_turn.threads, in_turn.lines);
        all
    };
    let present: Vec<Present> = (0..places).map(present).collect();
    for (place, held_at) in held_at.iter_mut().enumerate() {
        let at_work = delegates[place].at_most(max_delegates).threads;
        if at_work > 0.0 {
            let held = AccessCosts::held(unheld_delegates[place] / at_work);
            *held_at = held_at.max(held);
        }
    }
    Crowd {
        accessors: present.iter().map(|all| all.threads.max(1.0)).collect(),
        wait_ns: waits_in_queues(model, &present, &held_at, &lines_s),
        written_shares: written_lines_s
            .iter()
            .zip(&lines_s)
            .map(|(written, all)| written / f64::max(*all, 1e-9))
            .collect(),
        shared_reads: Vec::new(),
    }
}

/// What lines on their way wait for, beyond those in service and those that the queue holds.
fn waits_in_queues(
    model: &Model,
    present: &[Present],
    held_at: &[f64],
    lines_s: &[f64],
) -> Vec<f64> {
    let wait = |queue: usize| {
        let stands = |place: &usize| model.costs.places[*place].queues.contains(&queue);
        let places = || (0..present.len()).filter(stands);
        // One memory that holds its accessors back stops the queue for all.
        let held = places().map(|place| held_at[place]).fold(0.0, f64::max);
        let lines: f64 = places().map(|place| present[place].lines).sum();
        let through_s: f64 = places().map(|place| lines_s[place]).sum();
        model.costs.queue_wait_ns(queue, lines, held, through_s)
    };
    (0..model.costs.queue_lines.len()).map(wait).collect()
}
