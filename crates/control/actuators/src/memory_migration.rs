//! Migration of the memory of processes, after their threads (AsymSched §4.2 and §4.3).
//!
//! Memory follows *dynamically*: in each window, the most used pages on a node that the process left go where its
//! threads went. If no threads were moved, pages go from nodes without threads of the process to the node where they
//! ran most. Or memory follows *fully*: all of it at once. No process goes over its budget: work ends when the time is
//! over, and the time is charged. Nothing is undone: no page has a place to which it would have to go back.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use egeria_facts::{Facts, NodeAccesses, ProcessAccesses, ProcessKey, ThreadKey};
use egeria_machine::{Machine, NodeId};
use egeria_pages::accesses::HotPages;
use egeria_pages::migrate::{self, Migration, Order, Progress, Target};
use egeria_policy::asymsched::{MemoryAction, MemoryStep};
use egeria_policy::control::Actuator;
use egeria_policy::{Action, ActionKind, ActionOutcome};
use egeria_proc::Membership;
use egeria_proc::migration_times::MigrationTimes;

use crate::departures::Departures;

/// Most pages that follow dynamically in one window: 64 MiB.
const MAX_PAGES: usize = 1 << 14;
/// Pages that a worker takes at once, small enough to keep the time allowed: 2 MiB.
const PIECE_PAGES: usize = 512;

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
    /// Processes with memory that follows dynamically.
    following: Vec<ProcessKey>,
    /// Moved so far, bytes.
    moved: HashMap<ProcessKey, u64>,
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
            moved: HashMap::new(),
        }
    }

    /// Bytes moved so far, of all processes.
    pub fn moved_bytes(&self) -> u64 {
        self.moved.values().sum()
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

    fn run(&mut self, process: ProcessKey, order: &Order) -> std::io::Result<Migration> {
        let done = migrate::run(order, &self.machine, &Progress::default())?;
        self.times.add(process, done.took);
        let moved = self.moved.entry(process).or_default();
        *moved = moved.saturating_add(done.outcome.moved);
        tracing::debug!(
            process = process.process_id,
            moved = done.outcome.moved,
            took_ns = done.took.as_nanos() as u64,
            "memory migrated"
        );
        Ok(done)
    }

    fn step(&mut self, step: &MemoryStep, facts: &Facts) -> ActionOutcome {
        let process = step.process;
        self.following.retain(|other| *other != process);
        match &step.action {
            MemoryAction::Dynamic => {
                self.following.push(process);
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
            // It would cost too much now; the most used pages still follow.
            MemoryAction::Short { .. } => {
                self.following.push(process);
                ActionOutcome::Done
            }
            MemoryAction::Settled { .. } => {
                self.departures.forget(process);
                ActionOutcome::Done
            }
        }
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
            Err(error) => match error.raw_os_error() {
                Some(libc::ESRCH | libc::ENOENT) => ActionOutcome::Vanished,
                Some(libc::EPERM | libc::EACCES) => {
                    refused("it is another user's, or its cpuset has no memory there")
                }
                _ => refused(&error.to_string()),
            },
        }
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

/// From which nodes pages follow, and where to.
fn pairs(departures: &[(NodeId, NodeId)], accesses: &ProcessAccesses) -> BTreeMap<NodeId, NodeId> {
    if departures.is_empty() {
        to_threads(accesses)
    } else {
        left_behind(departures, accesses)
    }
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

    /// Moves a window's share of memory that follows dynamically.
    fn end_window(&mut self, facts: &Facts) {
        let following = std::mem::take(&mut self.following);
        for process in following {
            let accesses = of_process(facts, process);
            // A process that ended, or whose memory has arrived, is not followed any more.
            let Some(accesses) = accesses.filter(|_| self.holds(process)) else {
                continue;
            };
            self.following.push(process);
            let left_ns = self.left_ns(accesses);
            let pairs = pairs(&self.departures.of(process), accesses);
            if left_ns == 0 || pairs.is_empty() {
                continue;
            }
            let left: Vec<NodeId> = pairs.keys().copied().collect();
            let pages = targets(self.hot.hot_pages(process, &left, MAX_PAGES), &pairs);
            if pages.is_empty() {
                if has_memory_on(&left, accesses) {
                    self.times.want_look(process);
                }
                continue;
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(node: u16, threads: u32) -> NodeAccesses {
        NodeAccesses {
            node: NodeId(node),
            threads,
            pinned: false,
            accesses_s: Vec::new(),
            resident_bytes: 0,
        }
    }

    #[test]
    fn only_pages_on_nodes_without_threads_follow() {
        let accesses = ProcessAccesses {
            nodes: vec![at(0, 0), at(1, 2), at(2, 3)],
            ..ProcessAccesses::default()
        };
        let pairs = [(0, 2), (1, 2), (3, 1)].map(|(from, to)| (NodeId(from), NodeId(to)));
        let left = left_behind(&pairs, &accesses);
        assert_eq!(
            left,
            [(NodeId(0), NodeId(2)), (NodeId(3), NodeId(1))].into()
        );
        let hot = vec![(4096, NodeId(0)), (8192, NodeId(1)), (12288, NodeId(3))];
        let wanted = targets(hot, &left);
        assert_eq!(wanted, [(4096, NodeId(2)), (12288, NodeId(1))].into());
    }

    #[test]
    fn memory_of_threads_that_stay_comes_to_where_they_ran_most() {
        let with = |node, threads, accesses_s: f64, resident_bytes| NodeAccesses {
            accesses_s: vec![accesses_s; 4],
            resident_bytes,
            ..at(node, threads)
        };
        let (here, remote) = (with(1, 2, 5.0, 9), with(0, 0, 0.0, 4096));
        let accesses = ProcessAccesses {
            nodes: vec![remote, here, with(2, 1, 3.0, 0), with(3, 0, 0.0, 0)],
            ..ProcessAccesses::default()
        };
        assert_eq!(
            pairs(&[], &accesses),
            [(NodeId(0), NodeId(1))].into(),
            "what its other threads have beside them stays"
        );
        // If threads were moved, memory follows them.
        let moved = pairs(&[(NodeId(3), NodeId(2))], &accesses);
        assert_eq!(moved, [(NodeId(3), NodeId(2))].into());
        assert!(pairs(&[], &ProcessAccesses::default()).is_empty());
    }

    struct None;

    impl HotPages for None {
        fn hot_pages(&mut self, _: ProcessKey, _: &[NodeId], _: usize) -> Vec<(usize, NodeId)> {
            Vec::new()
        }
    }

    struct Everybody;

    impl Membership for Everybody {
        fn holds(&self, thread: ThreadKey) -> bool {
            egeria_proc::task::is_still(thread)
        }
    }

    fn actuator(times: &MigrationTimes) -> MemoryMigration {
        let machine = Machine::detect().unwrap();
        let members = Arc::new(Everybody);
        let departures = Departures::default();
        MemoryMigration::new(
            &machine,
            members,
            Box::new(None),
            times.clone(),
            departures,
            0.05,
        )
    }

    fn full(process: ProcessKey) -> Action {
        Action::MigrateMemory(MemoryStep {
            process,
            action: MemoryAction::Full {
                old_share: 1.0,
                copies: vec![(NodeId(0), NodeId(0), 1)],
                cost_ns: 1,
                chunk_pages: 30_000,
            },
        })
    }

    fn facts(process: ProcessKey, running_ns: u64) -> Facts {
        let machine = Machine::detect().unwrap();
        let mut facts = Facts::of(egeria_facts::Window::empty(&machine, 0, 0, 1));
        facts.accesses.processes.push(ProcessAccesses {
            process,
            running_ns,
            ..ProcessAccesses::default()
        });
        facts
    }

    #[test]
    fn time_is_charged_and_the_budget_ends_the_work() {
        if !std::path::Path::new("/proc/self/numa_maps").exists() {
            eprintln!("SKIPPED: this kernel has no /proc/PID/numa_maps");
            return;
        }
        let process = egeria_proc::task::process(std::process::id()).unwrap();
        let times = MigrationTimes::default();
        let mut actuator = actuator(&times);
        let hour = facts(process, 3_600_000_000_000);
        assert_eq!(actuator.apply(&full(process), &hour), ActionOutcome::Done);
        assert!(times.of(process) > 0);
        times.add(process, Duration::from_secs(180));
        let spent = actuator.apply(&full(process), &hour);
        assert_eq!(
            spent,
            refused("its budget was used up before all had followed")
        );
    }

    #[test]
    fn a_process_that_is_gone_or_another_has_vanished() {
        let process = ProcessKey {
            process_id: std::process::id(),
            start_ticks: 1,
        };
        let times = MigrationTimes::default();
        let mut actuator = actuator(&times);
        let facts = facts(process, 1_000_000_000);
        assert_eq!(
            actuator.apply(&full(process), &facts),
            ActionOutcome::Vanished
        );
        assert_eq!(times.of(process), 0);
    }

    #[test]
    fn memory_left_without_known_use_wants_another_look() {
        let process = egeria_proc::task::process(std::process::id()).unwrap();
        for (left_bytes, is_wanted) in [(1 << 30, true), (1 << 20, false)] {
            let times = MigrationTimes::default();
            let mut actuator = actuator(&times);
            let mut facts = facts(process, 3_600_000_000_000);
            let with = |node, threads, resident_bytes| NodeAccesses {
                resident_bytes,
                ..at(node, threads)
            };
            facts.accesses.processes[0].nodes = vec![with(0, 1, 1 << 30), with(1, 0, left_bytes)];
            let follow = Action::MigrateMemory(MemoryStep {
                process,
                action: MemoryAction::Dynamic,
            });
            assert_eq!(actuator.apply(&follow, &facts), ActionOutcome::Done);
            actuator.end_window(&facts);
            assert_eq!(times.take_wanted(process), is_wanted, "{left_bytes}");
            assert!(!times.take_wanted(process), "it counts once");
        }
    }
}
