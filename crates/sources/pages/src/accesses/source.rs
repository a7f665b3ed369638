//! Facts of processes, with what they access in memory.
//!
//! Samples of the PMU tell from where a process accesses what; so those rates are taken as they are. Other samplers
//! see what a process accesses, not which of its threads. Then the threads on each node are taken to access all of it,
//! in proportion to how long they ran, as AsymSched takes the threads of a cluster (§4.2).

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use egeria_facts::{
    FactSource, Facts, NodeAccesses, ProcessAccesses, ProcessKey, ThreadFacts, Window,
};
use egeria_machine::{Machine, NodeId};
use egeria_proc::masks::SharedMasks;
use egeria_proc::migration_times::MigrationTimes;
use egeria_proc::{LiveSource, Membership, task};

use super::rest;
use super::sampler::{Sample, Sampler};

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
}

impl<I: LiveSource, S: Sampler> MemorySource<I, S> {
    /// Adds to the facts of a source; `times` says what migration has taken.
    pub fn new(inner: I, sampler: S, times: MigrationTimes) -> MemorySource<I, S> {
        MemorySource {
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
        self.sample(&keys);
        let machine = self.inner.machine();
        let found = keys.iter().filter_map(|process| {
            let sample = self.last.get(process)?;
            let threads = &threads[&process.process_id];
            Some(accesses(machine, sample, threads, busy_ns, &self.times))
        });
        found.collect()
    }

    /// Looks at processes without known accesses, or with memory on its way; at all processes after a rest.
    fn sample(&mut self, processes: &[ProcessKey]) {
        self.last.retain(|process, _| processes.contains(process));
        self.sampler.keep(processes);
        let begin = Instant::now();
        let is_rested = begin >= self.rest_until;
        // Where processes come and go, or what is used is not found, looks are made ahead of their time, but not by
        // much.
        let may_hurry = self.rest_until.saturating_duration_since(begin) < rest::LONG;
        let mut due = Vec::new();
        for process in processes {
            let is_urgent = self.times.take_wanted(*process) || !self.last.contains_key(process);
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
        let before = rest::cpu_time();
        for sample in self.sampler.sample(due) {
            self.last.insert(sample.process, sample);
        }
        let looked = rest::cpu_time().saturating_sub(before);
        self.rest_until = self.rest_until.max(begin) + rest::after(looked, self.others);
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
    let ran_ns: u64 = threads.iter().map(|thread| thread.busy_ns).sum();
    let nodes = machine.nodes.iter().filter_map(|node| {
        let here = threads.iter().filter(|thread| thread.node == node.id);
        let busy = here.filter(|thread| thread.busy_ns >= busy_ns / threads.len().max(1) as u64);
        let busy: Vec<_> = busy.filter(|thread| thread.busy_ns > 0).collect();
        let resident_bytes = sample.resident.of(node.id);
        if busy.is_empty() && resident_bytes == 0 {
            return None;
        }
        let here_ns: u64 = busy.iter().map(|thread| thread.busy_ns).sum();
        let share = here_ns as f64 / ran_ns.max(1) as f64;
        // What threads accessed from here and have left since counts again where they are in the next window.
        let known = sample.from.iter().find(|(from, _)| *from == node.id);
        let known = known.filter(|_| !busy.is_empty());
        let rate = |memory: &NodeId| match (known, sample.from.is_empty()) {
            (Some((_, accessed)), _) => lines_s(accessed.of(*memory)),
            (None, true) => lines_s(sample.accessed.of(*memory)) * share,
            (None, false) => 0.0,
        };
        Some(NodeAccesses {
            node: node.id,
            threads: u32::try_from(busy.len()).unwrap_or(u32::MAX),
            pinned: busy.iter().any(|thread| thread.pinned),
            accesses_s: machine.nodes.iter().map(|node| rate(&node.id)).collect(),
            resident_bytes,
        })
    });
    ProcessAccesses {
        process: sample.process,
        nodes: nodes.collect(),
        running_ns: age_ns(sample.process.start_ticks),
        migrating_ns: times.of(sample.process),
    }
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
        let before = rest::cpu_time();
        let Some(mut facts) = self.inner.next_facts()? else {
            return Ok(None);
        };
        let took = rest::cpu_time().saturating_sub(before);
        self.others_took(took, facts.window.duration_ns);
        facts.accesses.processes = self.look(&facts.window);
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
mod tests {
    use super::*;
    use crate::NodeBytes;
    use crate::accesses::Recorded;
    use egeria_facts::{CpuSet, ThreadKey};
    use std::time::Duration;

    /// One window of this process: a thread on each of two nodes, that on node 1 three times as busy, and an idle one
    /// on node 1.
    struct Windows(Machine);

    impl FactSource for Windows {
        type Error = Infallible;

        fn machine(&self) -> &Machine {
            &self.0
        }

        fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
            let mut window = Window::empty(&self.0, 0, 0, 1_000_000_000);
            for (thread_id, node, busy_ns) in [(1, 0, 200_000_000), (2, 1, 600_000_000), (3, 1, 0)]
            {
                let key = ThreadKey {
                    process_id: std::process::id(),
                    thread_id,
                    start_ticks: 1,
                };
                let mut thread = ThreadFacts::idle(key, NodeId(node), 2, CpuSet::empty());
                thread.busy_ns = busy_ns;
                window.threads.push(thread);
            }
            Ok(Some(Facts::of(window)))
        }
    }

    struct Nobody;

    impl Membership for Nobody {
        fn holds(&self, _: ThreadKey) -> bool {
            false
        }
    }

    impl LiveSource for Windows {
        fn dilation(&self) -> f64 {
            1.0
        }

        fn start_over(&mut self) {}

        fn masks(&self) -> SharedMasks {
            SharedMasks::default()
        }

        fn members(&self) -> Arc<dyn Membership> {
            Arc::new(Nobody)
        }
    }

    fn own() -> ProcessKey {
        task::process(std::process::id()).unwrap()
    }

    #[test]
    fn threads_share_accesses_of_their_process_by_running_time() {
        let mut accessed = NodeBytes::default();
        accessed.add(NodeId(1), 64_000_000);
        let mut resident = accessed.clone();
        resident.add(NodeId(0), 1 << 30);
        let sample = Sample {
            process: own(),
            accessed,
            resident,
            from: Vec::new(),
            took: Duration::from_millis(100),
        };
        let other = Sample {
            process: ProcessKey::default(),
            ..sample.clone()
        };
        let recorded = Recorded([vec![other, sample]].into());
        let times = MigrationTimes::default();
        times.add(own(), Duration::from_millis(7));
        let machine = Machine::profile("optane-2s").unwrap();
        let mut source = MemorySource::new(Windows(machine.clone()), recorded, times);
        let facts = source.next_facts().unwrap().unwrap();
        facts.accesses.validate(&machine).unwrap();
        let [process] = &facts.accesses.processes[..] else {
            panic!("{facts:?}");
        };
        assert_eq!((process.process, process.migrating_ns), (own(), 7_000_000));
        let [zero, one] = &process.nodes[..] else {
            panic!("{process:?}");
        };
        // 1e7 lines/s, a quarter of them from node 0.
        let near = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 1e-6;
        assert!(near(zero.rate_to(1), 2.5e6) && near(one.rate_to(1), 7.5e6));
        assert_eq!((zero.rate_to(0), one.rate_to(0)), (0.0, 0.0));
        assert_eq!((zero.threads, one.threads), (1, 1));
        assert_eq!(
            (zero.resident_bytes, one.resident_bytes),
            (1 << 30, 64_000_000)
        );
    }

    #[test]
    fn who_accesses_what_is_taken_as_the_sampler_knows_it() {
        let on = |node: u16, bytes: u64| {
            let mut all = NodeBytes::default();
            all.add(NodeId(node), bytes);
            all
        };
        let mut accessed = on(0, 64_000_000);
        accessed.add(NodeId(1), 6_400_000);
        let sample = Sample {
            process: own(),
            accessed,
            resident: on(1, 1 << 20),
            // Node 1's threads ran three times as long and accessed a tenth.
            from: vec![
                (NodeId(0), on(0, 64_000_000)),
                (NodeId(1), on(1, 6_400_000)),
            ],
            took: Duration::from_secs(1),
        };
        let machine = Machine::profile("optane-2s").unwrap();
        let recorded = Recorded([vec![sample]].into());
        let windows = Windows(machine.clone());
        let mut source = MemorySource::new(windows, recorded, MigrationTimes::default());
        let facts = source.next_facts().unwrap().unwrap();
        facts.accesses.validate(&machine).unwrap();
        let [zero, one] = &facts.accesses.processes[0].nodes[..] else {
            panic!("{facts:?}");
        };
        let rates = [zero, one].map(|node| [node.rate_to(0), node.rate_to(1)]);
        assert_eq!(rates, [[1e6, 0.0], [0.0, 1e5]]);
    }

    /// Takes a while for each look, and names the processes that it looked at.
    struct Slow(Vec<ProcessKey>);

    impl Sampler for &mut Slow {
        fn sample(&mut self, processes: &[ProcessKey]) -> Vec<Sample> {
            let begin = rest::cpu_time();
            while rest::cpu_time() - begin < Duration::from_millis(30) {}
            self.0.extend(processes);
            let sample = |process: &ProcessKey| Sample {
                process: *process,
                accessed: NodeBytes::default(),
                resident: NodeBytes::default(),
                from: Vec::new(),
                took: Duration::from_millis(50),
            };
            processes.iter().map(sample).collect()
        }

        fn looks_at_each(&self) -> bool {
            true
        }
    }

    #[test]
    fn looks_rest_and_who_wants_one_gets_some_ahead_of_time() {
        let (mut slow, times) = (Slow(Vec::new()), MigrationTimes::default());
        let machine = Machine::profile("optane-2s").unwrap();
        let mut source = MemorySource::new(Windows(machine), &mut slow, times.clone());
        let mut look = |is_wanted: bool| {
            if is_wanted {
                times.want_look(own());
            }
            let facts = source.next_facts().unwrap().unwrap();
            assert_eq!(facts.accesses.processes.len(), 1, "what is known lasts");
            source.sampler.0.len()
        };
        assert_eq!([false, false, false].map(&mut look), [1, 1, 1]);
        // More than six seconds of rest for each: after half a minute of them that is enough.
        assert_eq!([true; 8].map(&mut look), [2, 3, 4, 5, 5, 5, 5, 5]);
    }

    #[test]
    fn what_other_looks_take_is_left_out_of_the_budget() {
        let machine = Machine::profile("optane-2s").unwrap();
        let times = MigrationTimes::default();
        let mut source = MemorySource::new(Windows(machine), Recorded::default(), times);
        for _ in 0..50 {
            source.others_took(Duration::from_millis(2), 1_000_000_000);
        }
        assert!((source.others - 0.002).abs() < 1e-4, "{}", source.others);
    }
}
