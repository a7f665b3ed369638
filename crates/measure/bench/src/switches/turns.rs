//! Threads that take turns on one CPU.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use egeria_harness::{Error, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

const WORDS_PER_LINE: usize = 8;
/// Steps between two looks at whether it is over.
const STEPS: usize = 4096;
const NS_PER_S: f64 = 1e9;

/// What they did, all together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turns {
    /// CPU time of all of them: what others take from the CPU meanwhile is not in it.
    pub(super) seconds: f64,
    /// Cache lines walked.
    pub(super) steps: f64,
    /// How often the kernel took the CPU from one of them.
    pub(super) switches: f64,
}

impl Turns {
    pub(super) fn steps_s(&self) -> f64 {
        self.steps / self.seconds
    }

    /// Time between two switches, ns.
    pub(super) fn slice_ns(&self) -> f64 {
        self.seconds * NS_PER_S / self.switches.max(1.0)
    }

    /// What each switch takes, ns: what steps lose beside those of one thread alone.
    pub(super) fn switch_ns(&self, alone: &Turns) -> f64 {
        (1.0 - self.steps_s() / alone.steps_s()) * self.slice_ns()
    }
}

/// So many threads on the CPU that this one is on first may use, each with so much memory of its own.
pub(super) fn take_turns(threads: usize, bytes: usize, measured: Duration) -> Result<Turns> {
    let (begin, stop) = (Barrier::new(threads + 1), AtomicBool::new(false));
    let run = || -> Result<(u64, u64, f64)> {
        let bound = bind();
        let mut memory = vec![1u64; (bytes / 8).max(WORDS_PER_LINE)];
        walk(&mut memory, bytes / 64);
        let before = switches();
        begin.wait();
        bound?;
        let began_s = cpu_s();
        let mut steps = 0;
        while !stop.load(Ordering::Relaxed) {
            walk(&mut memory, STEPS);
            steps += STEPS as u64;
        }
        Ok((steps, switches()? - before?, cpu_s() - began_s))
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        begin.wait();
        thread::sleep(measured);
        stop.store(true, Ordering::Relaxed);
        let mut turns = Turns {
            seconds: 0.0,
            steps: 0.0,
            switches: 0.0,
        };
        for each in all {
            let failed = || Error::failed("a thread that takes turns panicked".to_owned());
            let (steps, switches, seconds) = each.join().map_err(|_| failed())??;
            turns.seconds += seconds;
            turns.steps += steps as f64;
            turns.switches += switches as f64;
        }
        Ok(turns)
    })
}

/// CPU time of this thread so far, s.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / NS_PER_S
}

/// Over and over its memory, a word of each line.
fn walk(memory: &mut [u64], steps: usize) {
    let lines = memory.len() / WORDS_PER_LINE;
    for step in 0..steps {
        let word = &mut memory[step % lines * WORDS_PER_LINE];
        *word = black_box(*word).wrapping_mul(3);
    }
}

/// All on the first CPU that this process may use.
fn bind() -> Result<()> {
    let failed = |error| Error::failed(format!("threads cannot be bound to a CPU: {error}"));
    let allowed = sched_getaffinity(None).map_err(failed)?;
    let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu));
    let mut one = CpuSet::new();
    one.set(first.unwrap_or(0));
    sched_setaffinity(None, &one).map_err(failed)
}

/// How often the kernel took the CPU from this thread.
fn switches() -> Result<u64> {
    let unknown = || {
        let problem = "/proc/thread-self/status does not say how often a thread was switched";
        Error::failed(problem.to_owned())
    };
    let status = std::fs::read_to_string("/proc/thread-self/status").map_err(|_| unknown())?;
    let line = |line: &str| {
        line.strip_prefix("nonvoluntary_ctxt_switches:")?
            .trim()
            .parse()
            .ok()
    };
    status.lines().find_map(line).ok_or_else(unknown)
}
