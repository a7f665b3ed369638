//! What the kernel and the CPU count of a service during one block: bytes, instructions, CPU time, waits for a CPU, and
//! how much of its memory is near its threads.

use std::collections::HashMap;
use std::time::Instant;

use egeria_facts::ProcessKey;
use egeria_machine::Machine;
use egeria_pages::process::memory;
use egeria_pages::threads::Look;
use egeria_perf::Instructions;
use egeria_proc::{Scope, living, task};
use procfs::process::Process;
use serde::Serialize;

/// Each thread needs an open file during a block; of a service with more threads, instructions are not counted.
const MAX_COUNTED_THREADS: usize = 4096;
/// Where the memory of larger services is, is not looked at: the kernel walks all page tables, one second for 100 GiB.
const MAX_LOCATED_BYTES: u64 = 64 << 30;

/// What a service did, as the host counts it. `None`: not seen here.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Activity {
    /// Bytes that system calls read and wrote, per second.
    pub bytes_s: Option<f64>,
    /// Instructions outside of the kernel, per second.
    pub instructions_s: Option<f64>,
    /// CPU time per time: 1 is one CPU.
    pub cpus: Option<f64>,
    /// Time that threads were ready to run and waited for a CPU, per time.
    pub waiting_for_cpus: Option<f64>,
    /// Share of the memory that is on the nodes where the threads run, threads weighted by their CPU time. `None` on a
    /// machine with one node.
    pub local_share: Option<f64>,
}

impl Activity {
    /// Its values with their names, for tables.
    pub fn named(&self) -> [(&'static str, Option<f64>); 5] {
        [
            ("bytes/s", self.bytes_s),
            ("instructions/s", self.instructions_s),
            ("CPUs", self.cpus),
            ("waiting for CPUs", self.waiting_for_cpus),
            ("local share", self.local_share),
        ]
    }

    /// The median of each value over some blocks.
    pub fn median(blocks: &[Activity]) -> Activity {
        let of = |value: &dyn Fn(&Activity) -> Option<f64>| {
            let values: Vec<f64> = blocks.iter().filter_map(value).collect();
            egeria_stats::statistics::median(&values)
        };
        Activity {
            bytes_s: of(&|block| block.bytes_s),
            instructions_s: of(&|block| block.instructions_s),
            cpus: of(&|block| block.cpus),
            waiting_for_cpus: of(&|block| block.waiting_for_cpus),
            local_share: of(&|block| block.local_share),
        }
    }
}

/// The counts of a service at the begin of a block.
pub(crate) struct Begun {
    counts: Counts,
    instructions: Result<Instructions, String>,
    threads: Look,
    processes: Vec<u32>,
    begin: Instant,
}

impl Begun {
    /// Now. `None` when no process of the service is there.
    pub(crate) fn now(scope: &Scope) -> Option<Begun> {
        let counts = Counts::of(scope);
        let keys = counts.bytes.keys();
        let processes: Vec<u32> = keys.map(|key| key.process_id).collect();
        if processes.is_empty() {
            return None;
        }
        let threads: Vec<u32> = counts.threads.keys().copied().collect();
        let instructions = if threads.len() > MAX_COUNTED_THREADS {
            Err(format!("it has {} threads", threads.len()))
        } else {
            Instructions::begin(&threads).map_err(|error| error.to_string())
        };
        Some(Begun {
            threads: Look::begin(&processes),
            counts,
            instructions,
            processes,
            begin: Instant::now(),
        })
    }

    /// Why instructions are not counted here, if they are not.
    pub(crate) fn not_counted(&self) -> Option<&str> {
        self.instructions.as_ref().err().map(String::as_str)
    }

    /// What the service did since then; `None` when none of its processes is left.
    pub(crate) fn end(self, scope: &Scope, machine: Option<&Machine>) -> Option<Activity> {
        let elapsed_s = self.begin.elapsed().as_secs_f64().max(1e-9);
        let instructions = self.instructions.ok().map(|mut counters| counters.take());
        let now = Counts::of(scope);
        let is_there = |key: &ProcessKey| now.bytes.contains_key(key);
        if !self.counts.bytes.keys().any(is_there) {
            return None;
        }
        let [ran_s, waited_s] = now.times_since_s(&self.counts);
        let has_times = !now.threads.is_empty();
        let machine = machine.filter(|machine| machine.nodes.len() > 1);
        Some(Activity {
            bytes_s: Some(now.bytes_since(&self.counts) as f64 / elapsed_s),
            instructions_s: instructions.map(|count| count / elapsed_s),
            cpus: has_times.then_some(ran_s / elapsed_s),
            waiting_for_cpus: has_times.then_some(waited_s / elapsed_s),
            local_share: machine
                .and_then(|machine| local_share(self.threads, &self.processes, machine)),
        })
    }
}

/// Mean of the processes, weighted by their CPU time.
fn local_share(threads: Look, processes: &[u32], machine: &Machine) -> Option<f64> {
    let resident = processes.iter().filter_map(|process| {
        let process = Process::new(i32::try_from(*process).ok()?).ok()?;
        process.statm().ok().map(|statm| statm.resident)
    });
    let page_bytes = rustix::param::page_size() as u64;
    if resident.sum::<u64>().saturating_mul(page_bytes) > MAX_LOCATED_BYTES {
        return None;
    }
    let (mut sum, mut weights) = (0.0, 0.0);
    for (process, threads) in processes.iter().zip(threads.end(machine)) {
        let remote = memory(*process).ok();
        let remote = remote.and_then(|memory| threads.remote_share(&memory.by_node()));
        let ran_ns: u64 = threads.by_node.values().map(|on| on.busy_ns).sum();
        if let Some(remote) = remote {
            sum += (1.0 - remote) * ran_ns as f64;
            weights += ran_ns as f64;
        }
    }
    (weights > 0.0).then(|| sum / weights)
}

/// What the kernel has counted so far.
struct Counts {
    /// Bytes that each process has read and written; 0 where the kernel does not say.
    bytes: HashMap<ProcessKey, u64>,
    /// ns that each thread ran, and waited for a CPU.
    threads: HashMap<u32, [u64; 2]>,
}

impl Counts {
    fn of(scope: &Scope) -> Counts {
        let mut processes = task::processes();
        processes.retain(|process| scope.holds(*process));
        // A process that has ended keeps its number until its parent asks.
        processes.retain(|process| living::has_thread(*process));
        let threads = processes.iter().flat_map(|process| {
            let threads = task::threads(*process).into_iter();
            threads.filter_map(|thread| Some((thread, times_ns(*process, thread)?)))
        });
        let threads = threads.collect();
        let keys = processes.into_iter().filter_map(task::process);
        let bytes = |key: ProcessKey| {
            let process = i32::try_from(key.process_id).ok();
            let counts = process.and_then(|number| Process::new(number).ok()?.io().ok());
            (key, counts.map_or(0, |counts| counts.rchar + counts.wchar))
        };
        Counts {
            bytes: keys.map(bytes).collect(),
            threads,
        }
    }

    /// What those of now did since then; processes that ended between are not known.
    fn bytes_since(&self, then: &Counts) -> u64 {
        let each = self.bytes.iter();
        each.map(|(key, bytes)| bytes.saturating_sub(then.bytes.get(key).copied().unwrap_or(0)))
            .sum()
    }

    /// How long the threads of now ran, and waited for a CPU, since then, s.
    fn times_since_s(&self, then: &Counts) -> [f64; 2] {
        let mut sums = [0.0; 2];
        for (thread, now) in &self.threads {
            let before = then.threads.get(thread).copied().unwrap_or_default();
            for (sum, (now, before)) in sums.iter_mut().zip(now.iter().zip(before)) {
                *sum += now.saturating_sub(before) as f64 / 1e9;
            }
        }
        sums
    }
}

/// ns that a thread ran, and waited for a CPU, so far.
fn times_ns(process: u32, thread: u32) -> Option<[u64; 2]> {
    let path = format!("/proc/{process}/task/{thread}/schedstat");
    times_in(&std::fs::read_to_string(path).ok()?)
}

fn times_in(text: &str) -> Option<[u64; 2]> {
    let mut words = text.split_ascii_whitespace();
    let mut next = || words.next()?.parse().ok();
    Some([next()?, next()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_thread_are_read_and_subtracted() {
        assert_eq!(times_in("12 34 5\n"), Some([12, 34]));
        assert_eq!(times_in("12\n"), None);
        let counts = |threads: &[(u32, [u64; 2])]| Counts {
            bytes: HashMap::new(),
            threads: threads.iter().copied().collect(),
        };
        let then = counts(&[(1, [1_000_000_000, 5]), (2, [9, 9])]);
        // The second has ended, and the third has begun.
        let now = counts(&[(1, [3_000_000_000, 5]), (3, [0, 500_000_000])]);
        assert_eq!(now.times_since_s(&then), [2.0, 0.5]);
    }

    #[test]
    fn medians_leave_out_what_was_not_seen() {
        let block = |bytes_s: f64, cpus: Option<f64>| Activity {
            bytes_s: Some(bytes_s),
            cpus,
            ..Activity::default()
        };
        let blocks = [block(1.0, None), block(3.0, Some(0.5)), block(2.0, None)];
        let median = Activity::median(&blocks);
        assert_eq!((median.bytes_s, median.cpus), (Some(2.0), Some(0.5)));
        assert_eq!(median.local_share, None);
    }
}
