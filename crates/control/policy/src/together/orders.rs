//! Placements under way: memory that was ordered to go, and processes that rest after a placement.

use std::collections::BTreeMap;

use egeria_facts::{NodeAccesses, ProcessAccesses, ProcessKey};
use egeria_machine::{Machine, NodeId};

use super::basis::Basis;
use super::memory::SMALL_BYTES;
use super::tiers::Tiers;
use super::trial::Trial;
use super::works::Works;
use crate::asymsched::NodeMove;
use crate::{Action, ActionResult, measures};

/// Memory has arrived when no more than one part in this number is left of what was ordered.
const DONE: u64 = 50;
/// An order without progress for this number of windows, beyond the wait for its budget, will not come further: what
/// is left cannot move.
const STUCK_WINDOWS: u32 = 30;
/// After that the process rests for as many windows.
const STUCK_REST: u32 = 120;

/// Fewest windows for which a process rests whose placement was taken back.
const TAKEN_BACK_REST: u32 = 20;
/// What a placement lost that was taken back may be this part of the time until the next.
const LOST_SHARE: f64 = 0.02;
/// Each further placement of a process makes its rest this many times as long.
const REST_TIMES: u32 = 4;
/// A rest is at most this number of windows.
const LONGEST_REST: u32 = 640;
/// A process that was not placed for this number of windows rests as at first again.
const CALM_WINDOWS: u32 = 30;

/// If threads of a process ran elsewhere than it was placed for this number of windows, the scheduler or the owner moved
/// them, and the placement is void.
const ELSEWHERE_WINDOWS: u32 = 2;

/// A placement has come right when this share of the accesses is local, and what the process does has changed
/// when no more than the other share is.
const RIGHT: f64 = 0.9;
const CHANGED: f64 = 0.5;

/// Of all processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orders {
    by_process: BTreeMap<ProcessKey, Order>,
    /// Processes that were placed and may be placed again.
    before: BTreeMap<ProcessKey, Before>,
    /// The last placement, until it is judged.
    pub(super) trial: Option<Trial>,
    pub(super) tiers: Tiers,
    /// Of processes with counted work: what they got done in the last window, and how much that differs by chance.
    pub(super) works: Works,
}

/// The last placement of a process that may be placed again.
#[derive(Clone, Copy, Debug)]
struct Before {
    /// Its rest, and how long ago that ended.
    rest_windows: u32,
    since_windows: u32,
    /// Whether it was a placement by this stage; another's move of threads makes the next rest longer, too.
    is_own: bool,
    /// Whether threads came right by it, and no other stage moved them since: the next rest is no longer then.
    came_right: bool,
}

/// One process that was placed.
#[derive(Clone, Debug)]
struct Order {
    /// What is on its way: from where, bytes; and what lies there when all of it went.
    copies: Vec<Copy>,
    left_bytes: u64,
    /// Running time of which the budget may be spent in advance, ns.
    advance_ns: u64,
    /// The nodes that its threads should run on; empty where that is not said.
    nodes: Vec<NodeId>,
    /// Whether a node gives memory and gets some: how much lies there does not say how far the order is.
    exchanges: bool,
    /// Whether threads or memory moved; else it rests because others did.
    changes: bool,
    /// Whether nearly all accesses were local since.
    came_right: bool,
    /// Windows in which they ran elsewhere, or in which their work had changed.
    elsewhere_windows: u32,
    /// Whether they were brought back after that: it is tried once.
    were_brought_back: bool,
    still_windows: u32,
    /// Windows for which it is not placed again after memory arrived.
    rest_windows: u32,
    /// The rest of this placement as a whole.
    whole_rest_windows: u32,
}

#[derive(Clone, Copy, Debug)]
struct Copy {
    from: NodeId,
    bytes: u64,
    stays_bytes: u64,
}

impl Orders {
    /// Whether a process was placed a short while ago, so that other stages leave it alone.
    pub(crate) fn holds(&self, process: ProcessKey) -> bool {
        self.is_placed(process) || self.before.get(&process).is_some_and(|last| last.is_own)
    }

    /// Whether a process was placed and is not placed again now.
    pub(super) fn is_placed(&self, process: ProcessKey) -> bool {
        self.by_process.contains_key(&process)
    }

    /// Processes with memory on its way.
    pub(crate) fn arriving(&self) -> Vec<ProcessKey> {
        let orders = self.by_process.iter();
        let arriving = orders.filter(|(_, order)| !order.copies.is_empty());
        arriving.map(|(process, _)| *process).collect()
    }

    /// What is left of its memory to come, if some is on its way.
    pub(super) fn left_bytes(&self, process: ProcessKey) -> Option<u64> {
        let order = self.by_process.get(&process)?;
        (!order.copies.is_empty()).then_some(order.left_bytes)
    }

    /// A process was placed.
    pub(super) fn begin(
        &mut self,
        basis: &Basis<'_>,
        process: ProcessKey,
        copies: &[(NodeId, NodeId, u64)],
        mut nodes: Vec<NodeId>,
        advance_ns: u64,
    ) {
        nodes.sort_unstable();
        nodes.dedup();
        let exchanges = is_exchange(copies);
        let copies = leaving(basis, process, copies);
        let last = self.before.remove(&process);
        // Work that changes is followed by threads, as often as it changes; memory follows ever more rarely.
        let counts = |last: &Before| !last.came_right || !copies.is_empty();
        let last = last.filter(counts).map_or(0, |last| last.rest_windows);
        let first = basis.settings.rest_windows;
        let rest_windows = first.max(last.saturating_mul(REST_TIMES).min(LONGEST_REST));
        let order = Order {
            left_bytes: all_bytes(&copies),
            copies,
            exchanges,
            nodes,
            ..Order::new(advance_ns, rest_windows)
        };
        self.by_process.insert(process, order);
    }

    /// A process rests where it is, because others were placed.
    pub(super) fn begin_rest(
        &mut self,
        basis: &Basis<'_>,
        process: ProcessKey,
        nodes: Vec<NodeId>,
    ) {
        self.begin(basis, process, &[], nodes, 0);
        if let Some(order) = self.by_process.get_mut(&process) {
            order.changes = false;
        }
    }

    /// More memory of a process goes; its rest stays as it was.
    pub(super) fn add_copies(
        &mut self,
        basis: &Basis<'_>,
        process: ProcessKey,
        copies: &[(NodeId, NodeId, u64)],
        advance_ns: u64,
    ) {
        let exchanges = is_exchange(copies);
        let copies = leaving(basis, process, copies);
        let last = self.before.remove(&process);
        let rest_windows = last.map_or(basis.settings.rest_windows, |last| last.rest_windows);
        let order = self.by_process.entry(process);
        let order = order.or_insert_with(|| Order::new(advance_ns, rest_windows));
        (order.left_bytes, order.still_windows) = (all_bytes(&copies), 0);
        (order.copies, order.exchanges) = (copies, exchanges);
        order.changes = true;
        order.advance_ns = order.advance_ns.max(advance_ns);
    }

    /// Takes results. An order that is judged has ended, which nothing else shows of an exchange.
    pub(crate) fn learn(&mut self, results: &[ActionResult]) {
        for result in results {
            let Action::MigrateMemory(step) = &result.action else {
                continue;
            };
            let order = self.by_process.get_mut(&step.process);
            if let Some(order) = order.filter(|order| order.exchanges) {
                order.copies.clear();
            }
        }
    }

    /// A window has passed for tiers, too.
    pub(super) fn pass_tiers(&mut self, rest_windows: u32) {
        let orders = &self.by_process;
        let is_arriving = |process| {
            let order: Option<&Order> = orders.get(&process);
            order.is_some_and(|order| !order.copies.is_empty())
        };
        self.tiers.pass(rest_windows, is_arriving);
    }

    /// Another stage moved threads of a process, which counts as a placement: the next is followed by a longer rest.
    pub(super) fn placed_by_others(&mut self, basis: &Basis<'_>, process: ProcessKey) {
        let first = Before {
            rest_windows: basis.settings.rest_windows,
            since_windows: 0,
            is_own: false,
            came_right: false,
        };
        let before = self.before.entry(process).or_insert(first);
        (before.since_windows, before.came_right) = (0, false);
    }

    /// Threads that the scheduler moved away from the only node that their process was placed on, as moves back: else
    /// memory on its way would arrive where no thread is, or threads would leave what they have just come to. The
    /// processes are those whose order is [`Order::changes`].
    pub(super) fn bring_back(&mut self, basis: &Basis<'_>) -> Vec<NodeMove> {
        let mut moves = Vec::new();
        for facts in &basis.window.processes {
            let process = facts.process;
            let order = self.by_process.get_mut(&process);
            let Some(order) = order.filter(|order| order.elsewhere_windows > 0) else {
                continue;
            };
            let [to] = order.nodes[..] else { continue };
            if !order.changes || order.were_brought_back {
                continue;
            }
            let away = facts.nodes.iter();
            let away = away.filter(|each| each.threads > 0 && each.node != to);
            let away: Vec<&NodeAccesses> = away.collect();
            if away.is_empty() || away.iter().any(|each| each.pinned) {
                continue;
            }
            (order.were_brought_back, order.elsewhere_windows) = (true, 0);
            moves.extend(away.into_iter().map(|each| NodeMove {
                process,
                threads: each.threads,
                from: each.node,
                to,
                resident_bytes: 0,
            }));
        }
        moves
    }

    /// The rest of a process's last placement as a whole.
    pub(super) fn whole_rest(&self, process: ProcessKey) -> u32 {
        let order = self.by_process.get(&process);
        order.map_or(0, |order| order.whole_rest_windows)
    }

    /// A placement was taken back: its process rests longer the more of its windows that took, and at least for as long as
    /// that placement was to rest.
    pub(super) fn rest(&mut self, process: ProcessKey, least_windows: u32, lost_windows: f64) {
        if let Some(order) = self.by_process.get_mut(&process) {
            let rest_windows = (lost_windows / LOST_SHARE).min(f64::from(LONGEST_REST)) as u32;
            let rest_windows = rest_windows.max(least_windows).max(TAKEN_BACK_REST);
            order.rest_windows = order.rest_windows.max(rest_windows);
            order.whole_rest_windows = order.rest_windows;
        }
    }

    /// A window has passed.
    pub(super) fn pass(&mut self, basis: &Basis<'_>) {
        let is_arriving = |order: &Order| !order.copies.is_empty();
        let is_usual = self.trial.is_none() && !self.by_process.values().any(is_arriving);
        self.works.note(&basis.facts.accesses.processes, is_usual);
        self.before.retain(|_, before| {
            before.since_windows += 1;
            before.since_windows < CALM_WINDOWS
        });
        let before = &mut self.before;
        let facts = |process: ProcessKey| {
            let mut processes = basis.window.processes.iter();
            processes.find(|facts| facts.process == process)
        };
        self.by_process.retain(|process, order| {
            if facts(*process).is_some_and(|facts| order.is_void(facts, basis.machine)) {
                // Another may follow at once, but not again and again.
                if order.whole_rest_windows <= basis.settings.rest_windows {
                    before.insert(*process, order.as_before());
                    return false;
                }
                order.copies.clear();
                order.nodes.clear();
            }
            if order.copies.is_empty() {
                order.rest_windows = order.rest_windows.saturating_sub(1);
                if order.rest_windows == 0 {
                    before.insert(*process, order.as_before());
                }
                return order.rest_windows > 0;
            }
            let Some(facts) = facts(*process) else {
                // It did nothing in this window, or has ended.
                order.still_windows += 1;
                return order.still_windows < STUCK_WINDOWS;
            };
            order.look(facts, basis);
            true
        });
    }
}

impl Order {
    /// One that changes something; what that is follows.
    fn new(advance_ns: u64, rest_windows: u32) -> Order {
        Order {
            copies: Vec::new(),
            left_bytes: 0,
            advance_ns,
            nodes: Vec::new(),
            exchanges: false,
            changes: true,
            came_right: false,
            elsewhere_windows: 0,
            were_brought_back: false,
            still_windows: 0,
            rest_windows,
            whole_rest_windows: rest_windows,
        }
    }

    /// Its rest has ended.
    fn as_before(&self) -> Before {
        Before {
            rest_windows: self.whole_rest_windows,
            since_windows: 0,
            is_own: true,
            came_right: self.came_right,
        }
    }

    /// Whether the threads of the process do not run where it was placed, or came right there and use memory of other
    /// nodes now.
    fn is_void(&mut self, facts: &ProcessAccesses, machine: &Machine) -> bool {
        let with_threads = facts.nodes.iter().filter(|each| each.threads > 0);
        let mut nodes: Vec<NodeId> = with_threads.map(|each| each.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let is_elsewhere = !self.nodes.is_empty() && nodes != self.nodes;
        let local = measures::local_share(machine, facts, |node| node);
        let moved_threads = self.changes && !self.nodes.is_empty() && self.copies.is_empty();
        self.came_right |= moved_threads && local.is_some_and(|local| local >= RIGHT);
        let is_other_work = self.came_right && local.is_some_and(|local| local <= CHANGED);
        let is_elsewhere = is_elsewhere || is_other_work;
        self.elsewhere_windows = if is_elsewhere {
            self.elsewhere_windows + 1
        } else {
            0
        };
        self.elsewhere_windows >= ELSEWHERE_WINDOWS
    }

    /// What of its memory is left.
    fn look(&mut self, facts: &ProcessAccesses, basis: &Basis<'_>) {
        let left = self.copies.iter().map(|copy| {
            let there = resident(Some(facts), copy.from);
            there.saturating_sub(copy.stays_bytes).min(copy.bytes)
        });
        let left_bytes: u64 = left.fold(0, u64::saturating_add);
        let all_bytes = all_bytes(&self.copies);
        let others_ns = (basis.others_ns)(facts.process);
        let cost_ns = basis.cost.ns(left_bytes.min(SMALL_BYTES));
        let is_waiting = basis.wait_ns(facts, self.advance_ns, others_ns, cost_ns) > 0;
        if left_bytes < self.left_bytes {
            self.still_windows = 0;
        } else if !is_waiting {
            self.still_windows += 1;
        }
        self.left_bytes = left_bytes;
        if left_bytes <= (all_bytes / DONE).max(SMALL_BYTES) {
            self.copies.clear();
        } else if self.still_windows >= STUCK_WINDOWS {
            self.copies.clear();
            self.rest_windows = STUCK_REST;
        }
    }
}

/// Memory of a process on a node, bytes.
fn resident(facts: Option<&ProcessAccesses>, node: NodeId) -> u64 {
    let nodes = facts.into_iter().flat_map(|facts| &facts.nodes);
    let there = nodes.filter(|each| each.node == node);
    there.fold(0, |sum, each| sum.saturating_add(each.resident_bytes))
}

fn is_exchange(copies: &[(NodeId, NodeId, u64)]) -> bool {
    let gets = |node: NodeId| copies.iter().any(|(_, to, _)| *to == node);
    copies.iter().any(|(from, _, _)| gets(*from))
}

/// What of a process leaves each node.
fn leaving(basis: &Basis<'_>, process: ProcessKey, copies: &[(NodeId, NodeId, u64)]) -> Vec<Copy> {
    let mut processes = basis.window.processes.iter();
    let facts = processes.find(|facts| facts.process == process);
    let mut leaving: BTreeMap<NodeId, u64> = BTreeMap::new();
    for (from, _, bytes) in copies {
        let sum = leaving.entry(*from).or_default();
        *sum = sum.saturating_add(*bytes);
    }
    let copies = leaving.into_iter().map(|(from, bytes)| Copy {
        from,
        bytes,
        stays_bytes: resident(facts, from).saturating_sub(bytes),
    });
    copies.collect()
}

fn all_bytes(copies: &[Copy]) -> u64 {
    copies
        .iter()
        .fold(0, |sum, copy| sum.saturating_add(copy.bytes))
}
