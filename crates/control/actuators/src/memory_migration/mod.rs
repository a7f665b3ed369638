//! Migration of the memory of processes: after their threads (AsymSched §4.2 and §4.3), and to the nodes that access it.
//!
//! Memory follows *dynamically*: in each window, the most used pages on a node that the process left go where its
//! threads went. If no threads were moved, all memory on nodes without threads of the process goes to the node where
//! they ran most. Or memory follows *fully*: all of it at once. Or it is *gathered*, as much as is ordered between nodes.
//! No process goes over its budget, which is CPU time of the migration: work pauses when that is used up, and is
//! continued when there is more. Nothing is undone: no page has a place to which it would have to go back.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use egeria_facts::{Facts, NodeAccesses, ProcessAccesses, ProcessKey, ThreadKey};
use egeria_machine::{Machine, NodeId};
use egeria_pages::accesses::HotPages;
use egeria_pages::migrate::{self, Migration, Order, Progress, Target};
use egeria_policy::asymsched::{MAX_DYNAMIC_BYTES, MemoryAction, MemoryStep, TierMove};
use egeria_policy::control::Actuator;
use egeria_policy::{Action, ActionKind, ActionOutcome};
use egeria_proc::Membership;
use egeria_proc::migration_times::MigrationTimes;

use crate::departures::Departures;
use crate::gathering::{
    Allowance, GatherProgress, Gathering, Gatherings, Live, PIECE_PAGES, Pair, Sleepers, Step,
};

/// Most pages that follow dynamically in one window.
const MAX_PAGES: usize = MAX_DYNAMIC_BYTES as usize / 4096;
/// Part of a window that all orders together may take of the steward's time; the rest is for looking.
const WINDOW_SHARE: f64 = 0.75;
/// At most this, so that the steward can be stopped.
const MAX_TIME: Duration = Duration::from_secs(4);
/// What a byte is taken to cost where nothing was moved yet, ns.
const NS_PER_BYTE: f64 = 1.0;

/// Memory left behind by a process is looked at again if it is more than one part in this number.
const SMALL_PART: u64 = 20;

/// Moves memory of processes.
pub struct MemoryMigration {
    machine: Machine,
    members: Arc<dyn Membership>,
    hot: Box<dyn HotPages>,
    times: MigrationTimes,
    departures: Departures,
    /// Part of its running time that may be spent on a process.
    budget: f64,
    /// Processes with memory that follows dynamically, and whether enough of it has arrived.
    following: Vec<(ProcessKey, bool)>,
    /// Orders that take several windows.
    gatherings: Gatherings,
    /// Those of this window so far, and how far they are where there is something to say.
    went_on: Vec<(ProcessKey, Option<GatherProgress>)>,
    /// What there was to say of the last window.
    progress: Vec<GatherProgress>,
    /// Moved so far, bytes.
    moved: HashMap<ProcessKey, u64>,
    sleepers: Sleepers,
}

impl MemoryMigration {
    /// For the processes in `members`; `times` passes the spent time to the facts.
    pub fn new(
        machine: &Machine,
        members: Arc<dyn Membership>,
        hot: Box<dyn HotPages>,
        times: MigrationTimes,
        departures: Departures,
        budget: f64,
    ) -> MemoryMigration {
        MemoryMigration {
            machine: machine.clone(),
            members,
            hot,
            times,
            departures,
            budget,
            following: Vec::new(),
            gatherings: Gatherings::new(),
            went_on: Vec::new(),
            progress: Vec::new(),
            moved: HashMap::new(),
            sleepers: Sleepers::default(),
        }
    }

    /// Bytes moved so far, of all processes.
    pub fn moved_bytes(&self) -> u64 {
        self.moved.values().sum()
    }

    /// The orders that went on in the last window, and how far they are.
    pub fn progress(&self) -> &[GatherProgress] {
        &self.progress
    }

    fn holds(&self, process: ProcessKey) -> bool {
        self.members.holds(ThreadKey {
            process_id: process.process_id,
            thread_id: process.process_id,
            start_ticks: process.start_ticks,
        })
    }

    /// What may yet be spent on a process, ns.
    fn left_ns(&self, accesses: &ProcessAccesses) -> u64 {
        let allowed_ns = (accesses.running_ns as f64 * self.budget) as u64;
        allowed_ns.saturating_sub(self.times.of(accesses.process))
    }

    /// What may yet be spent on an order, ns.
    fn left_of(&self, gathering: &Gathering, accesses: &ProcessAccesses) -> u64 {
        let running_ns = accesses.running_ns.saturating_add(gathering.advance_ns);
        let allowed_ns = (running_ns as f64 * self.budget) as u64;
        let spent_ns = self.times.of(accesses.process);
        allowed_ns.saturating_sub(spent_ns.saturating_add(gathering.others_ns))
    }

    fn run(&mut self, process: ProcessKey, order: &Order) -> std::io::Result<Migration> {
        let done = migrate::run(order, &self.machine, &Progress::default())?;
        self.charge(process, done.outcome.moved, done.worked);
        Ok(done)
    }

    fn charge(&mut self, process: ProcessKey, bytes: u64, worked: Duration) {
        self.times.migrated(process, bytes, worked);
        let moved = self.moved.entry(process).or_default();
        *moved = moved.saturating_add(bytes);
        tracing::debug!(
            process = process.process_id,
            moved = bytes,
            worked_ns = worked.as_nanos() as u64,
            "memory migrated"
        );
    }

    fn step(&mut self, step: &MemoryStep, facts: &Facts) -> ActionOutcome {
        let process = step.process;
        self.following.retain(|(other, _)| *other != process);
        let is_gathered = matches!(
            step.action,
            MemoryAction::Gather { .. } | MemoryAction::Dynamic
        );
        if !is_gathered {
            self.gatherings.remove(&process);
        }
        match &step.action {
            MemoryAction::Dynamic => {
                self.following.push((process, false));
                ActionOutcome::Done
            }
            MemoryAction::Full {
                copies,
                chunk_pages,
                ..
            } => {
                let pairs = copies.iter().map(|(from, to, _)| (*from, *to)).collect();
                self.full(process, pairs, *chunk_pages, facts)
            }
            MemoryAction::Gather {
                copies,
                others_ns,
                advance_ns,
                tier,
                ..
            } => {
                self.departures.forget(process);
                let gathering = self.order(process, copies, (*others_ns, *advance_ns));
                gathering.coldest_first = matches!(tier, Some(TierMove::Demoted { .. }));
                self.go_on(process, facts)
            }
            // It would cost too much now; the most used pages still follow.
            MemoryAction::Short { .. } => {
                self.following.push((process, false));
                ActionOutcome::Done
            }
            // As in the paper, where dynamic migration never ends: the rest follows when it is used.
            MemoryAction::Settled { .. } => {
                self.following.push((process, true));
                ActionOutcome::Done
            }
        }
    }

    /// Takes an order, with what was spent on other moves of the process and the running time that counts in advance.
    fn order(
        &mut self,
        process: ProcessKey,
        copies: &[(NodeId, NodeId, u64)],
        (others_ns, advance_ns): (u64, u64),
    ) -> &mut Gathering {
        let gathering = match self.gatherings.entry(process) {
            Entry::Occupied(mut known) => {
                known.get_mut().replace(copies);
                known.into_mut()
            }
            Entry::Vacant(free) => free.insert(Gathering::new(process, copies)),
        };
        (gathering.others_ns, gathering.advance_ns) = (others_ns, advance_ns);
        gathering
    }

    /// A window's share of an order.
    fn go_on(&mut self, process: ProcessKey, facts: &Facts) -> ActionOutcome {
        // An idle process has no facts: its order waits.
        let accesses = of_process(facts, process);
        let Some(mut gathering) = self.gatherings.remove(&process) else {
            return ActionOutcome::Vanished;
        };
        if !self.holds(process) {
            return ActionOutcome::Vanished;
        }
        self.went_on.push((process, None));
        let Some(accesses) = accesses else {
            self.gatherings.insert(process, gathering);
            return ActionOutcome::GoesOn {
                reason: "the process does not run now".to_owned(),
            };
        };
        let (had_ended, before) = (gathering.has_ended(), gathering.moved());
        let step = self.carry_out(&mut gathering, accesses, facts);
        let (moved, worked) = (
            gathering.moved().0 - before.0,
            gathering.moved().1 - before.1,
        );
        if !worked.is_zero() {
            self.charge(process, moved, worked);
        }
        match step {
            Ok(Step::Paused) => {}
            Ok(Step::Ended) => return ActionOutcome::Vanished,
            Err(error) if is_gone(&error) => return ActionOutcome::Vanished,
            Err(error) => {
                tracing::info!("memory of {process} does not go on: {}", why(&error));
                return refused(&why(&error));
            }
        }
        let progress = gathering.progress(self.wait_ns(&gathering, accesses));
        let outcome = outcome(&gathering, moved, &progress);
        let ends = gathering.has_ended() && !had_ended;
        if ends {
            // What it brought is judged by what is accessed from now on.
            self.times.want_look(process);
        }
        let is_news = moved > 0 || ends;
        if let Some((_, said)) = self.went_on.last_mut().filter(|_| is_news) {
            *said = Some(progress);
        }
        self.gatherings.insert(process, gathering);
        outcome
    }

    fn carry_out(
        &self,
        gathering: &mut Gathering,
        accesses: &ProcessAccesses,
        facts: &Facts,
    ) -> io::Result<Step> {
        let process = accesses.process;
        let others = self.gatherings.values();
        let others = others.filter(|other| !other.has_ended()).count() as u32;
        let window = Duration::from_nanos(facts.window.duration_ns);
        let allowed = Allowance {
            budget: Duration::from_nanos(self.left_of(gathering, accesses)),
            time: window.mul_f64(WINDOW_SHARE).min(MAX_TIME) / (others + 1),
        };
        if allowed.budget.is_zero() || gathering.has_ended() {
            return Ok(Step::Paused);
        }
        let live = Live::open(&self.machine, process, &facts.accesses, &self.sleepers)?;
        gathering.step(&live, &self.hot.regions(process), allowed)
    }

    /// When the budget will have been enough for what is left of an order, ns from now.
    fn wait_ns(&self, gathering: &Gathering, accesses: &ProcessAccesses) -> u64 {
        let known = || self.times.cost().map(|cost| cost.s_per_gb);
        let ns_per_byte = gathering
            .ns_per_byte()
            .or_else(known)
            .unwrap_or(NS_PER_BYTE);
        let needed_ns = gathering.left_bytes() as f64 * ns_per_byte;
        let lacking_ns = needed_ns - self.left_of(gathering, accesses) as f64;
        // Casts saturate.
        (lacking_ns.max(0.0) / self.budget.max(1e-6)) as u64
    }

    /// Orders that all memory on nodes without threads goes to these, unless that is ordered already.
    fn bring_behind(&mut self, process: ProcessKey, accesses: &ProcessAccesses) {
        let pairs = to_threads(accesses);
        let copies: Vec<(NodeId, NodeId, u64)> = (accesses.nodes.iter())
            .filter_map(|each| Some((each.node, *pairs.get(&each.node)?, each.resident_bytes)))
            .collect();
        let nodes: Vec<NodeId> = pairs.keys().copied().collect();
        let known = self.gatherings.get(&process);
        let is_known = known.is_some_and(|known| {
            known
                .pairs()
                .eq(pairs.iter().map(|(from, to)| (*from, *to)))
                && !(known.has_ended() && has_memory_on(&nodes, accesses))
        });
        if !copies.is_empty() && !is_known {
            self.order(process, &copies, (0, 0));
        }
    }

    /// Moves the most used pages that lie on nodes which the threads left.
    fn follow(
        &mut self,
        (process, is_settled): (ProcessKey, bool),
        departures: &[Pair],
        accesses: &ProcessAccesses,
    ) {
        let left_ns = self.left_ns(accesses);
        let pairs = left_behind(departures, accesses);
        if left_ns == 0 || pairs.is_empty() {
            return;
        }
        let left: Vec<NodeId> = pairs.keys().copied().collect();
        let pages = targets(self.hot.hot_pages(process, &left, MAX_PAGES), &pairs);
        if pages.is_empty() {
            if !is_settled && has_memory_on(&left, accesses) {
                self.times.want_look(process);
            }
            return;
        }
        let order = Order {
            max_time: Duration::from_nanos(left_ns),
            piece_pages: PIECE_PAGES,
            ..Order::of(
                process.process_id,
                process.start_ticks,
                Target::Pages(pages),
            )
        };
        // A failed move is tried in the next window, and all of it when the wait is over.
        let _ = self.run(process, &order);
    }

    /// Moves everything left on these nodes.
    fn full(
        &mut self,
        process: ProcessKey,
        pairs: Vec<(NodeId, NodeId)>,
        chunk_pages: u64,
        facts: &Facts,
    ) -> ActionOutcome {
        let Some(accesses) = of_process(facts, process).filter(|_| self.holds(process)) else {
            return ActionOutcome::Vanished;
        };
        let order = Order {
            max_time: Duration::from_nanos(self.left_ns(accesses)),
            piece_pages: usize::try_from(chunk_pages).unwrap_or(usize::MAX),
            ..Order::of(
                process.process_id,
                process.start_ticks,
                Target::Follow(pairs),
            )
        };
        self.departures.forget(process);
        match self.run(process, &order) {
            Ok(done) if done.is_ended => ActionOutcome::Vanished,
            Ok(done) if done.is_cut => refused("its budget was used up before all had followed"),
            Ok(done) if done.outcome.no_room > 0 => refused("the node has no memory for all of it"),
            Ok(_) => ActionOutcome::Done,
            Err(error) if is_gone(&error) => ActionOutcome::Vanished,
            Err(error) => refused(&why(&error)),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOENT))
}

/// Why memory does not move, in one line.
fn why(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "it is another user's, or its cpuset has no memory there".to_owned()
        }
        _ => error.to_string(),
    }
}

/// The outcome of a window of an order.
fn outcome(gathering: &Gathering, moved: u64, progress: &GatherProgress) -> ActionOutcome {
    if !gathering.has_ended() {
        ActionOutcome::GoesOn {
            reason: progress.to_string(),
        }
    } else if moved == 0 && progress.stuck.bytes() > 0 {
        refused(&progress.to_string())
    } else {
        ActionOutcome::Done
    }
}

fn refused(reason: &str) -> ActionOutcome {
    ActionOutcome::Refused {
        reason: reason.to_owned(),
    }
}

fn of_process(facts: &Facts, process: ProcessKey) -> Option<&ProcessAccesses> {
    let mut all = facts.accesses.processes.iter();
    all.find(|accesses| accesses.process == process)
}

/// Whether more than stacks and libraries of a process was on these nodes when it was last looked at.
fn has_memory_on(nodes: &[NodeId], accesses: &ProcessAccesses) -> bool {
    let on = |wanted: bool| {
        let all = accesses.nodes.iter();
        let there = all.filter(move |each| !wanted || nodes.contains(&each.node));
        there.fold(0, |sum: u64, each| sum.saturating_add(each.resident_bytes))
    };
    on(true) > on(false) / SMALL_PART
}

/// Nodes that have memory of the process and none of its threads, and the node where these ran most.
fn to_threads(accesses: &ProcessAccesses) -> BTreeMap<NodeId, NodeId> {
    let rate = |each: &NodeAccesses| each.accesses_s.iter().sum::<f64>();
    let busy = accesses.nodes.iter().filter(|each| each.threads > 0);
    let Some(most) = busy.max_by(|one, other| rate(one).total_cmp(&rate(other))) else {
        return BTreeMap::new();
    };
    let nodes = accesses.nodes.iter();
    let remote = nodes.filter(|each| each.threads == 0 && each.resident_bytes > 0);
    remote.map(|each| (each.node, most.node)).collect()
}

/// Nodes that the process was on and that none of its threads is on.
fn left_behind(pairs: &[(NodeId, NodeId)], accesses: &ProcessAccesses) -> BTreeMap<NodeId, NodeId> {
    let has_threads = |node: NodeId| {
        let mut nodes = accesses.nodes.iter();
        nodes.any(|each| each.node == node && each.threads > 0)
    };
    let left = pairs.iter().filter(|(from, _)| !has_threads(*from));
    left.copied().collect()
}

/// Where each page that lies on a node left behind should be.
fn targets(hot: Vec<(usize, NodeId)>, pairs: &BTreeMap<NodeId, NodeId>) -> BTreeMap<usize, NodeId> {
    let pages = hot.into_iter();
    let pages = pages.filter_map(|(page, node)| Some((page, *pairs.get(&node)?)));
    pages.collect()
}

impl Actuator for MemoryMigration {
    fn kinds(&self) -> &[ActionKind] {
        &[ActionKind::MemoryMigration]
    }

    fn apply(&mut self, action: &Action, facts: &Facts) -> ActionOutcome {
        match action {
            Action::MigrateMemory(step) => self.step(step, facts),
            _ => ActionOutcome::NoActuator,
        }
    }

    fn is_under_way(&self, action: &Action) -> bool {
        let Action::MigrateMemory(step) = action else {
            return false;
        };
        let gathering = self.gatherings.get(&step.process);
        gathering.is_some_and(Gathering::is_going)
    }

    /// Moves a window's share of memory that is on its way.
    fn end_window(&mut self, facts: &Facts) {
        let following = std::mem::take(&mut self.following);
        for (process, is_settled) in following {
            let accesses = of_process(facts, process);
            // A process that ended, or whose memory has arrived, is not followed any more.
            let Some(accesses) = accesses.filter(|_| self.holds(process)) else {
                continue;
            };
            self.following.push((process, is_settled));
            let departures = self.departures.of(process);
            if departures.is_empty() {
                self.bring_behind(process, accesses);
            } else {
                self.gatherings.remove(&process);
                self.follow((process, is_settled), &departures, accesses);
            }
        }
        let mut ordered: Vec<ProcessKey> = self.gatherings.keys().copied().collect();
        ordered.retain(|process| self.went_on.iter().all(|(done, _)| done != process));
        for process in ordered {
            self.go_on(process, facts);
        }
        let said = std::mem::take(&mut self.went_on).into_iter();
        self.progress = said.filter_map(|(_, said)| said).collect();
    }
}

#[cfg(test)]
mod tests;
