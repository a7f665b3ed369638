//! The bounds from window to window.

use std::collections::{BTreeMap, BTreeSet};

use egeria_facts::{AccessWindow, Facts, MemoryTraffic, ProcessAccesses, ProcessKey};
use egeria_machine::{Machine, NodeId};
use serde::{Deserialize, Serialize};

use super::plan::{BoundBecause, MbaPlan, Share, UnboundBecause};
use crate::media::{gives_bytes_s, of_programs};
use crate::setting::{Entry, by_name, entry, number};

/// A memory that moves this part of what it gives to its threads is busy.
const BUSY: f64 = 0.8;
/// Programs that are bounded stay so while the memory moves this part of what it gives to the threads that it bears.
const STAYS_BUSY: f64 = 0.4;
/// A process with less than this part of the threads at a memory is not bounded: it would change little.
const MIN_PART: f64 = 0.05;
/// Rates stay at this part of what the memory gives: with all of it, requests queue, and all threads are at the memory
/// again.
const UNQUEUED: f64 = 0.95;
/// Bounds above this share are not worth setting.
const MAX_SHARE: f64 = 0.95;
/// The smallest share: no program is stopped.
const MIN_SHARE: f64 = 0.05;
/// A share that changes by less than this part stays.
const SAME_SHARE: f64 = 0.15;

/// When programs are bounded (ours).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Bounds stay for this number of windows after they were last wanted (10).
    pub rest_windows: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { rest_windows: 10 }
    }
}

const SETTINGS: [Entry<Settings>; 1] = [entry!(
    [rest_windows],
    "windows, a whole number from 1 to 100000",
    u32::to_string,
    |text| number(text, 1, 100_000)
)];

by_name!(Settings, SETTINGS);

/// What bounds are decided on.
pub(crate) struct Basis<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) facts: &'a Facts,
    /// The processes that use memory more than files: files ask for admission.
    pub(crate) window: &'a AccessWindow,
    /// The limit of threads that ask, by node.
    pub(crate) limit: &'a dyn Fn(NodeId) -> Option<u32>,
    pub(crate) settings: &'a Settings,
}

/// The bounds in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    in_force: Option<MbaPlan>,
    /// Windows since they were last wanted.
    unwanted: u32,
}

/// One memory with too many threads.
struct Crowded {
    processes: Vec<ProcessKey>,
    /// Nodes with threads of these, and how many are at the memory.
    nodes: BTreeMap<NodeId, f64>,
    share: f64,
    because: BoundBecause,
}

impl State {
    /// The bounds for the next window.
    pub(crate) fn next(&mut self, basis: &Basis<'_>) -> MbaPlan {
        let wanted = self.wanted(basis);
        let before = self.in_force.take();
        let (plan, unwanted) = match (wanted, before) {
            (wanted @ MbaPlan::On { .. }, Some(before)) if is_near(&wanted, &before) => (before, 0),
            (wanted @ MbaPlan::On { .. }, _) => (wanted, 0),
            (_, Some(before)) if self.unwanted + 1 < basis.settings.rest_windows => {
                (living(before, basis), self.unwanted + 1)
            }
            (off, _) => (off, 0),
        };
        self.unwanted = unwanted;
        if matches!(plan, MbaPlan::On { .. }) {
            self.in_force = Some(plan.clone());
        }
        plan
    }

    /// Nothing is bounded any more, whatever is wanted.
    pub(crate) fn end(&mut self) {
        *self = State::default();
    }

    fn wanted(&self, basis: &Basis<'_>) -> MbaPlan {
        let off = |because| MbaPlan::Off { because };
        let (mut has_curve, mut is_counted, mut others) = (false, false, None);
        let mut crowded: Vec<Crowded> = Vec::new();
        for index in 0..basis.machine.nodes.len() {
            match self.at(basis, index) {
                Ok(found) => crowded.push(found),
                Err(UnboundBecause::NoCurve) => continue,
                Err(because) => {
                    has_curve = true;
                    is_counted |= because != UnboundBecause::NotCounted;
                    if let UnboundBecause::OthersFirst { .. } = because {
                        others = others.or(Some(because));
                    }
                }
            }
        }
        let worst = (crowded.iter()).min_by(|one, other| one.share.total_cmp(&other.share));
        let Some(because) = worst.map(|worst| worst.because) else {
            return off(match others {
                Some(others) => others,
                None if !has_curve => UnboundBecause::NoCurve,
                None if !is_counted => UnboundBecause::NotCounted,
                None => UnboundBecause::Quiet,
            });
        };
        // One group has all of them, so the smallest share of a node counts for all of its threads.
        let mut shares: BTreeMap<NodeId, Share> = BTreeMap::new();
        let mut processes: BTreeSet<ProcessKey> = BTreeSet::new();
        for each in &crowded {
            processes.extend(&each.processes);
            for (node, threads) in &each.nodes {
                let share = shares.entry(*node).or_insert(Share {
                    node: *node,
                    share: each.share,
                    bytes_s: 0.0,
                });
                share.share = share.share.min(each.share);
                // Each thread at a memory gets as much as any other.
                let part = threads * each.share / f64::from(each.because.bears);
                share.bytes_s += each.because.expected_bytes_s * part;
            }
        }
        MbaPlan::On {
            processes: processes.into_iter().collect(),
            shares: shares.into_values().collect(),
            because,
        }
    }

    /// The memory of one node, if it has too many threads that do not ask.
    fn at(&self, basis: &Basis<'_>, index: usize) -> Result<Crowded, UnboundBecause> {
        let node = &basis.machine.nodes[index];
        let (kind, medium) = of_programs(basis.machine, index).ok_or(UnboundBecause::NoCurve)?;
        if !medium.falls() {
            return Err(UnboundBecause::NoCurve);
        }
        let mut memories = basis.facts.memories.iter();
        let traffic = memories.find(|each| each.node == node.id && each.kind == kind);
        let (bytes_s, write_share) = traffic.and_then(rate).ok_or(UnboundBecause::NotCounted)?;
        let bears = medium.knee(write_share).ok_or(UnboundBecause::Quiet)?;
        let users: Vec<User> = (basis.window.processes.iter())
            .map(|process| User::of(basis, process, index))
            .filter(|user| user.threads > 0.0)
            .collect();
        let all: f64 = users.iter().map(|user| user.threads).sum();
        let asking = asking(basis, index, node.id);
        let crowd = all + f64::from(asking);
        if crowd <= f64::from(bears) {
            return Err(UnboundBecause::Quiet);
        }
        let gives = |threads: f64| {
            let threads = threads.clamp(1.0, f64::from(u32::MAX)) as u32;
            gives_bytes_s(&medium, write_share, threads).ok_or(UnboundBecause::NoCurve)
        };
        let is_bounded = self.in_force.is_some();
        let least = if is_bounded {
            STAYS_BUSY * gives(f64::from(bears))?
        } else {
            BUSY * gives(crowd)?
        };
        if bytes_s < least {
            return Err(UnboundBecause::Quiet);
        }
        if asking > bears {
            return Err(UnboundBecause::OthersFirst { node: node.id });
        }
        let (bounded, rest): (Vec<User>, Vec<User>) = users
            .into_iter()
            .partition(|user| user.threads >= MIN_PART * all);
        let sum = |users: &[User]| -> f64 { users.iter().map(|user| user.threads).sum() };
        // What is bounded may do what one thread does, if no room is left.
        let room = (f64::from(bears - asking) - sum(&rest)).max(1.0);
        // The CPU bounds rates: a thread gets what it would get of as many as the memory bears.
        let each = gives(f64::from(bears))? / f64::from(bears) / gives(1.0)?;
        let share = (UNQUEUED * each * room / sum(&bounded)).clamp(MIN_SHARE, 1.0);
        if share > MAX_SHARE {
            return Err(UnboundBecause::Quiet);
        }
        let mut nodes: BTreeMap<NodeId, f64> = BTreeMap::new();
        for (node, threads) in bounded.iter().flat_map(|user| &user.nodes) {
            *nodes.entry(*node).or_default() += threads;
        }
        Ok(Crowded {
            nodes,
            processes: bounded.iter().map(|user| user.process).collect(),
            share,
            because: BoundBecause {
                node: node.id,
                threads: crowd,
                bears,
                traffic_bytes_s: bytes_s,
                expected_bytes_s: bytes_s * gives(f64::from(bears))? / gives(crowd)?,
            },
        })
    }
}

/// A process at one memory.
struct User {
    process: ProcessKey,
    /// Its threads there, each by the part of its accesses that go there and of the time that it runs.
    threads: f64,
    /// The same by the node that they run on.
    nodes: Vec<(NodeId, f64)>,
}

impl User {
    fn of(basis: &Basis<'_>, process: &ProcessAccesses, memory: usize) -> User {
        let mut user = User {
            process: process.process,
            threads: 0.0,
            nodes: Vec::new(),
        };
        for each in &process.nodes {
            let all: f64 = (0..each.accesses_s.len())
                .map(|index| each.rate_to(index))
                .sum();
            let here = each.rate_to(memory);
            let running = running(basis.facts, process.process, each.node);
            let running = running.unwrap_or(f64::from(each.threads));
            if here > 0.0 && running > 0.0 && each.threads > 0 {
                let threads = running.min(f64::from(each.threads)) * here / all;
                user.threads += threads;
                user.nodes.push((each.node, threads));
            }
        }
        user
    }
}

/// Threads of a process that ran on a node, in the mean; `None` if its threads are not seen.
fn running(facts: &Facts, process: ProcessKey, node: NodeId) -> Option<f64> {
    let threads = facts.window.threads.iter();
    let mut own = threads
        .filter(|thread| thread.key.process_id == process.process_id)
        .peekable();
    own.peek()?;
    let duration_ns = facts.window.duration_ns.max(1) as f64;
    let there = own.filter(|thread| thread.node == node);
    Some(
        there
            .map(|thread| (thread.busy_ns as f64 / duration_ns).min(1.0))
            .sum(),
    )
}

/// Threads that ask for admission at this memory, as far as they are admitted. Where a node has persistent memory, files lie
/// there and not here.
fn asking(basis: &Basis<'_>, index: usize, node: NodeId) -> u32 {
    if basis
        .machine
        .has_persistent_memory(&basis.machine.nodes[index])
    {
        return 0;
    }
    let mut media = basis.facts.media.iter();
    let demand = media.find(|medium| medium.node == node);
    let demand = demand.map_or(0, |medium| medium.measured.demand);
    (basis.limit)(node).map_or(demand, |limit| limit.min(demand))
}

/// Traffic of a memory, bytes/s, and the share of it that is written.
fn rate(traffic: &MemoryTraffic) -> Option<(f64, f64)> {
    let all = traffic.read_bytes_s + traffic.written_bytes_s;
    let is_rate = all.is_finite() && all > 0.0 && traffic.written_bytes_s >= 0.0;
    is_rate.then(|| (all, (traffic.written_bytes_s / all).min(1.0)))
}

/// Whether the same programs have nearly the same shares.
fn is_near(wanted: &MbaPlan, before: &MbaPlan) -> bool {
    let (
        MbaPlan::On {
            processes, shares, ..
        },
        MbaPlan::On {
            processes: old_processes,
            shares: old_shares,
            ..
        },
    ) = (wanted, before)
    else {
        return false;
    };
    let mut both = shares.iter().zip(old_shares);
    processes == old_processes
        && shares.len() == old_shares.len()
        && both.all(|(now, old)| {
            now.node == old.node && (now.share - old.share).abs() <= SAME_SHARE * old.share
        })
}

/// Bounds without processes that have ended; nothing is bounded if all have.
fn living(plan: MbaPlan, basis: &Basis<'_>) -> MbaPlan {
    let MbaPlan::On {
        mut processes,
        shares,
        because,
    } = plan
    else {
        return plan;
    };
    let is_seen = |process: &ProcessKey| {
        let mut seen = basis.facts.accesses.processes.iter();
        seen.any(|each| each.process == *process)
    };
    processes.retain(is_seen);
    if processes.is_empty() {
        return MbaPlan::default();
    }
    MbaPlan::On {
        processes,
        shares,
        because,
    }
}
