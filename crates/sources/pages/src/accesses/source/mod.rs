//! Facts of processes, with what they access in memory.
//!
//! Samples of the PMU tell from where a process accesses what; so those rates are taken as they are. Other samplers
//! see what a process accesses, not which of its threads. Then the threads on each node are taken to access all of it,
//! in proportion to how long they ran, as AsymSched takes the threads of a cluster (§4.2).

mod work;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egeria_facts::{
    FactSource, Facts, MAX_REGIONS, NodeAccesses, ProcessAccesses, ProcessKey, RegionAccesses,
    ThreadFacts, Window,
};
use egeria_machine::{Machine, NodeId};
use egeria_proc::masks::SharedMasks;
use egeria_proc::migration_times::MigrationTimes;
use egeria_proc::{LiveSource, Membership, task};

use super::region::Region;
use super::rest;
use super::sampler::{Sample, Sampler};
use crate::{balancing, cpu_time, room};
use work::Work;

/// Processes sampled in one window: those that ran longest.
const MAX_PROCESSES: usize = 64;
/// Part of a window that a process, or a thread, must have run to count.
const BUSY_SHARE: f64 = 0.02;
/// What one access moves.
const LINE_BYTES: f64 = 64.0;

/// Another source, and what a sampler sees of its processes.
pub struct MemorySource<I, S> {
    inner: I,
    sampler: S,
    times: MigrationTimes,
    last: HashMap<ProcessKey, Sample>,
    /// By then what was spent on looks is a small part of the time.
    rest_until: Instant,
    /// Part of a core that the other source takes.
    others: f64,
    /// What processes get done. The clock of an emulated machine is not the CPU's.
    work: Option<Work>,
}

impl<I: LiveSource, S: Sampler> MemorySource<I, S> {
    /// Adds to the facts of a source; `times` says what migration has taken.
    pub fn new(inner: I, sampler: S, times: MigrationTimes) -> MemorySource<I, S> {
        let machine = inner.machine();
        let is_placed = machine.nodes.len() > 1 && !machine.is_emulated();
        MemorySource {
            work: is_placed.then(Work::of_instructions),
            inner,
            sampler,
            times,
            last: HashMap::new(),
            rest_until: Instant::now(),
            others: 0.0,
        }
    }

    fn look(&mut self, window: &Window) -> Vec<ProcessAccesses> {
        let mut threads: BTreeMap<u32, Vec<&ThreadFacts>> = BTreeMap::new();
        for thread in &window.threads {
            threads
                .entry(thread.key.process_id)
                .or_default()
                .push(thread);
        }
        let busy_ns = (window.duration_ns as f64 * BUSY_SHARE) as u64;
        let ran = |threads: &[&ThreadFacts]| {
            let ran = threads.iter().map(|thread| thread.busy_ns);
            ran.fold(0, u64::saturating_add)
        };
        let mut busy: Vec<(u64, ProcessKey)> = Vec::new();
        for (process_id, threads) in &threads {
            let ran_ns = ran(threads);
            let process = task::process(*process_id).filter(|_| ran_ns >= busy_ns.max(1));
            busy.extend(process.map(|process| (ran_ns, process)));
        }
        busy.sort_by(|one, other| other.cmp(one));
        busy.truncate(MAX_PROCESSES);
        let keys: Vec<ProcessKey> = busy.into_iter().map(|(_, process)| process).collect();
        let machine = self.inner.machine();
        let is_spread = |process: &ProcessKey| {
            let shares = shares(machine, &threads[&process.process_id], busy_ns);
            shares.iter().filter(|share| **share > 0.0).count() > 1
        };
        let spread: Vec<ProcessKey> = keys.iter().copied().filter(is_spread).collect();
        self.sample(&keys, &spread);
        let work = self.work.as_mut();
        let work = work.map_or_else(HashMap::new, |work| work.rates(&keys));
        let machine = self.inner.machine();
        let found = keys.iter().filter_map(|process| {
            let sample = self.last.get(process)?;
            let threads = &threads[&process.process_id];
            Some(ProcessAccesses {
                work_s: work.get(process).copied(),
                ..accesses(machine, sample, threads, busy_ns, &self.times)
            })
        });
        found.collect()
    }

    /// Looks at processes without known accesses, or with memory on its way; at all processes after a rest.
    fn sample(&mut self, processes: &[ProcessKey], spread: &[ProcessKey]) {
        self.last.retain(|process, _| processes.contains(process));
        self.sampler.keep(processes);
        let begin = Instant::now();
        let is_rested = begin >= self.rest_until;
        // Where processes come and go, or what is used is not found, looks are made ahead of their time, but not by
        // much.
        let may_hurry = self.rest_until.saturating_duration_since(begin) < rest::LONG;
        let mut due = Vec::new();
        for process in processes {
            // A process that ran has accessed something: a look that saw nothing says nothing.
            let last = self.last.get(process);
            let is_known = last.is_some_and(|sample| sample.accessed.total() > 0);
            let is_urgent = self.times.take_wanted(*process) || !is_known;
            if is_rested || (may_hurry && is_urgent) {
                due.push(*process);
            }
        }
        if due.is_empty() {
            return;
        }
        let due = if self.sampler.looks_at_each() {
            &due
        } else {
            processes
        };
        let before = cpu_time::of_thread();
        let mut samples = self.sampler.sample(due);
        self.sampler.refine(&mut samples, spread);
        for sample in samples {
            self.last.insert(sample.process, sample);
        }
        let spent = self.sampler.take_spent();
        let looked = cpu_time::of_thread().saturating_sub(before) + spent.own + spent.kernel;
        let rest = rest::after(looked, self.others);
        tracing::debug!(
            processes = due.len(),
            is_rested,
            looked_ns = looked.as_nanos() as u64,
            rest_ns = rest.as_nanos() as u64,
            "memory was looked at"
        );
        self.rest_until = self.rest_until.max(begin) + rest;
    }

    /// Notes what looking at a window took without its memory.
    fn others_took(&mut self, cpu: Duration, window_ns: u64) {
        /// The part of an average that a window is.
        const NEW: f64 = 0.2;
        let share = cpu.as_secs_f64() * 1e9 / window_ns.max(1) as f64;
        self.others += (share - self.others) * NEW;
    }
}

/// What one process did, as AsymSched takes it.
fn accesses(
    machine: &Machine,
    sample: &Sample,
    threads: &[&ThreadFacts],
    busy_ns: u64,
    times: &MigrationTimes,
) -> ProcessAccesses {
    let lines_s = |bytes: u64| bytes as f64 / LINE_BYTES / sample.took.as_secs_f64().max(1e-6);
    let on = |node| busy_on(threads, node, busy_ns);
    let shares = shares(machine, threads, busy_ns);
    let nodes = machine
        .nodes
        .iter()
        .zip(&shares)
        .filter_map(|(node, share)| {
            let busy = on(node.id);
            let resident_bytes = sample.resident.of(node.id);
            if busy.is_empty() && resident_bytes == 0 {
                return None;
            }
            // What threads accessed from here and have left since counts again where they are in the next window.
            let known = sample.from.iter().find(|(from, _)| *from == node.id);
            let known = known.filter(|_| !busy.is_empty());
            let others = if sample.from.is_empty() {
                &sample.accessed
            } else {
                &sample.unassigned
            };
            let rate = |memory: &NodeId| {
                let own = known.map_or(0, |(_, accessed)| accessed.of(*memory));
                lines_s(own) + lines_s(others.of(*memory)) * share
            };
            Some(NodeAccesses {
                node: node.id,
                threads: u32::try_from(busy.len()).unwrap_or(u32::MAX),
                pinned: busy.iter().any(|thread| thread.pinned),
                accesses_s: machine.nodes.iter().map(|node| rate(&node.id)).collect(),
                resident_bytes,
            })
        });
    let of_region = |region: &Region| {
        let rate = |(node, share): (NodeId, &f64)| match &region.from[..] {
            [] => lines_s(region.accessed_bytes) * share,
            from => {
                let own = from.iter().find(|(from, _)| *from == node);
                own.map_or(0.0, |(_, bytes)| lines_s(*bytes))
            }
        };
        let ids = || machine.nodes.iter().map(|node| node.id);
        RegionAccesses {
            start: region.range.start as u64,
            resident_bytes: ids().map(|node| region.resident.of(node)).collect(),
            accesses_s: ids().zip(&shares).map(rate).collect(),
            is_fixed: region.is_fixed,
        }
    };
    ProcessAccesses {
        process: sample.process,
        nodes: nodes.collect(),
        running_ns: age_ns(sample.process.start_ticks),
        migrating_ns: times.of(sample.process),
        work_s: None,
        accessors_known: !sample.from.is_empty(),
        regions: sample
            .regions
            .iter()
            .take(MAX_REGIONS)
            .map(of_region)
            .collect(),
    }
}

/// The busy threads on a node.
fn busy_on<'a>(threads: &[&'a ThreadFacts], node: NodeId, busy_ns: u64) -> Vec<&'a ThreadFacts> {
    let enough_ns = (busy_ns / threads.len().max(1) as u64).max(1);
    let here = threads.iter().filter(|thread| thread.node == node);
    here.filter(|thread| thread.busy_ns >= enough_ns)
        .copied()
        .collect()
}

/// How much of the running time of a process its busy threads had on each node.
fn shares(machine: &Machine, threads: &[&ThreadFacts], busy_ns: u64) -> Vec<f64> {
    let ran = |threads: &[&ThreadFacts]| {
        let ran = threads.iter().map(|thread| thread.busy_ns);
        ran.fold(0, u64::saturating_add) as f64
    };
    let all_ns = ran(threads).max(1.0);
    let nodes = machine.nodes.iter();
    nodes
        .map(|node| ran(&busy_on(threads, node.id, busy_ns)) / all_ns)
        .collect()
}

/// How long ago a process began.
fn age_ns(start_ticks: u64) -> u64 {
    const NS_PER_TICK: u64 = 10_000_000;
    let text = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds = text.split_ascii_whitespace().next();
    let seconds: f64 = seconds.and_then(|text| text.parse().ok()).unwrap_or(0.0);
    ((seconds * 1e9) as u64).saturating_sub(start_ticks.saturating_mul(NS_PER_TICK))
}

impl<I: LiveSource, S: Sampler> FactSource for MemorySource<I, S> {
    type Error = Infallible;

    fn machine(&self) -> &Machine {
        self.inner.machine()
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
        let before = cpu_time::of_thread();
        let Some(mut facts) = self.inner.next_facts()? else {
            return Ok(None);
        };
        let took = cpu_time::of_thread().saturating_sub(before);
        self.others_took(took, facts.window.duration_ns);
        facts.accesses.processes = self.look(&facts.window);
        facts.accesses.migration_cost = self.times.cost();
        let machine = self.inner.machine();
        facts.accesses.free_bytes = room::for_programs(machine);
        facts.accesses.kernel_balances =
            !machine.is_emulated() && balancing::is_on(Path::new("/proc"));
        Ok(Some(facts))
    }
}

impl<I: LiveSource, S: Sampler> LiveSource for MemorySource<I, S> {
    crate::as_inner!();

    fn start_over(&mut self) {
        self.inner.start_over();
    }
}

#[cfg(test)]
mod tests;
