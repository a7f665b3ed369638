//! One sample of a figure: threads on their CPUs, at the loops, for a while.
//!
//! What counts is the time a thread had its CPU: waiting for memory is part of it, waiting for other programs is not.
//! Kernels that count CPU time in ticks may say next to nothing of a short sample; so no less than a
//! [`MIN_CPU_SHARE`] of the whole time is believed.

use std::time::{Duration, Instant};

use egeria_machine::CpuId;
use egeria_stats::rng::Rng;
use rustix::time::{ClockId, clock_gettime};

use crate::hardware::kernels::{self, Line};
use crate::hardware::threads::together;
use crate::schedule::Operation;
use crate::{CalibrateError, LINE_BYTES};

/// Lines between two looks at the clock.
const CHUNK_LINES: usize = 1024;
/// Loads or stores between two looks at the clock.
const CHUNK_HOPS: u32 = 64;

/// Least share of its time that a thread is believed to have had its CPU.
const MIN_CPU_SHARE: f64 = 1.0 / 16.0;

/// How much was done, and in what time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Bytes, loads or stores.
    amount: u64,
    /// The thread's time on its CPU, s.
    cpu_s: f64,
    /// Time between begin and end, s.
    wall_s: f64,
}

/// Samples of threads that ran at once.
#[derive(Clone, Debug)]
pub(crate) struct Sample(Vec<Taken>);

impl Sample {
    /// What all threads together did per second.
    pub(crate) fn per_second(&self) -> f64 {
        let believed_s = |taken: &Taken| taken.cpu_s.max(taken.wall_s * MIN_CPU_SHARE);
        let rate = |taken: &Taken| taken.amount as f64 / believed_s(taken).max(1e-9);
        self.0.iter().map(rate).sum()
    }

    /// What one of the only thread's loads or stores took, ns.
    pub(crate) fn each_ns(&self) -> f64 {
        1e9 / self.per_second().max(1e-9)
    }

    /// Time of all threads on their CPUs, and all their time, s.
    pub(crate) fn times_s(&self) -> (f64, f64) {
        let sum = |of: fn(&Taken) -> f64| self.0.iter().map(of).sum();
        (sum(|taken| taken.cpu_s), sum(|taken| taken.wall_s))
    }
}

/// Does something again and again until the time is over; `step` says how much it did.
fn repeat(time: Duration, mut step: impl FnMut() -> u64) -> Taken {
    let (begun, cpu_begun_s) = (Instant::now(), cpu_s());
    let mut amount = 0;
    loop {
        amount += step();
        if begun.elapsed() >= time {
            return Taken {
                amount,
                cpu_s: cpu_s() - cpu_begun_s,
                wall_s: begun.elapsed().as_secs_f64(),
            };
        }
    }
}

/// What the calling thread has had of its CPU, s.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// CPUs at once, each at a part of its own, from a random place in it on; bytes.
pub(crate) fn stream(
    cpus: &[CpuId],
    lines: &mut [Line],
    operation: Operation,
    rng: &mut Rng,
    time: Duration,
) -> Result<Sample, CalibrateError> {
    together(stream_jobs(cpus, lines, operation, rng, time)).map(Sample)
}

/// CPUs at once, each with accesses of so many bytes at random places in a part of its own, of which none waits for
/// another; bytes.
pub(crate) fn small(
    cpus: &[CpuId],
    lines: &mut [Line],
    (bytes, operation): (usize, Operation),
    rng: &mut Rng,
    time: Duration,
) -> Result<Sample, CalibrateError> {
    let part_lines = (lines.len() / cpus.len()).max(1);
    let mut jobs = Vec::with_capacity(cpus.len());
    for (cpu, part) in cpus.iter().zip(lines.chunks_mut(part_lines)) {
        let each = (bytes / LINE_BYTES).clamp(1, part.len());
        let blocks = part.len() / each;
        let mut rng = Rng::new(rng.next_u64());
        let step = move || {
            for _ in 0..CHUNK_HOPS {
                let from = rng.index(blocks) * each;
                let block = &mut part[from..from + each];
                match operation {
                    Operation::Read => kernels::read(block),
                    _ => kernels::begin_nontemporal(block),
                }
            }
            kernels::wait_for_nontemporal();
            (CHUNK_HOPS as usize * each * LINE_BYTES) as u64
        };
        jobs.push((*cpu, move || repeat(time, step)));
    }
    together(jobs).map(Sample)
}

/// A chain of loads on one CPU while others go through other lines: both samples.
pub(crate) fn loads_beside(
    cpu: CpuId,
    (chain, at): (&[Line], &mut usize),
    (cpus, lines, operation): (&[CpuId], &mut [Line], Operation),
    rng: &mut Rng,
    time: Duration,
) -> Result<[Sample; 2], CalibrateError> {
    let mut jobs = stream_jobs(cpus, lines, operation, rng, time);
    let step = move || {
        *at = kernels::chase(chain, *at, CHUNK_HOPS);
        u64::from(CHUNK_HOPS)
    };
    jobs.insert(0, (cpu, Box::new(move || repeat(time, step))));
    let mut taken = together(jobs)?;
    let rest = taken.split_off(1);
    Ok([Sample(taken), Sample(rest)])
}

/// Two streams of loads at once: what each read.
pub(crate) fn two_streams(
    flows: [(&[CpuId], &mut [Line]); 2],
    rng: &mut Rng,
    time: Duration,
) -> Result<[Sample; 2], CalibrateError> {
    let [one, other] = flows;
    let first = one.0.len();
    let mut jobs = stream_jobs(one.0, one.1, Operation::Read, rng, time);
    jobs.extend(stream_jobs(other.0, other.1, Operation::Read, rng, time));
    let mut taken = together(jobs)?;
    let rest = taken.split_off(first);
    Ok([Sample(taken), Sample(rest)])
}

fn stream_jobs<'a>(
    cpus: &[CpuId],
    lines: &'a mut [Line],
    operation: Operation,
    rng: &mut Rng,
    time: Duration,
) -> Vec<(CpuId, Box<dyn FnOnce() -> Taken + Send + 'a>)> {
    let part_lines = (lines.len() / cpus.len()).max(1);
    let mut jobs: Vec<(CpuId, Box<dyn FnOnce() -> Taken + Send + 'a>)> =
        Vec::with_capacity(cpus.len());
    for (cpu, part) in cpus.iter().zip(lines.chunks_mut(part_lines)) {
        // What was stored last, from the beginning on, may still be in the cache.
        let chunks = part.len().div_ceil(CHUNK_LINES);
        let mut chunk = rng.index(chunks);
        let step = move || {
            let from = chunk * CHUNK_LINES;
            let end = part.len().min(from + CHUNK_LINES);
            chunk = (chunk + 1) % chunks;
            go_through(&mut part[from..end], operation)
        };
        jobs.push((*cpu, Box::new(move || repeat(time, step))));
    }
    jobs
}

fn go_through(lines: &mut [Line], operation: Operation) -> u64 {
    match operation {
        Operation::Read => kernels::read(lines),
        Operation::Write => kernels::write(lines),
        Operation::WriteNontemporal => kernels::write_nontemporal(lines),
        Operation::CopyNontemporal => kernels::copy_nontemporal(lines),
    }
    size_of_val(lines) as u64
}

/// A chain of loads on one CPU, from where it was left on.
pub(crate) fn loads(
    cpu: CpuId,
    chain: &[Line],
    at: &mut usize,
    time: Duration,
) -> Result<Sample, CalibrateError> {
    let step = || {
        *at = kernels::chase(chain, *at, CHUNK_HOPS);
        u64::from(CHUNK_HOPS)
    };
    together(vec![(cpu, || repeat(time, step))]).map(Sample)
}

/// Lines stored past the caches by one CPU, at random places, with a fence each.
pub(crate) fn stores(
    cpu: CpuId,
    lines: &mut [Line],
    rng: &mut Rng,
    time: Duration,
) -> Result<Sample, CalibrateError> {
    let step = || {
        for _ in 0..CHUNK_HOPS {
            let line = rng.index(lines.len());
            kernels::write_nontemporal(&mut lines[line..=line]);
        }
        u64::from(CHUNK_HOPS)
    };
    together(vec![(cpu, || repeat(time, step))]).map(Sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(amount: u64, cpu_s: f64) -> Taken {
        Taken {
            amount,
            cpu_s,
            wall_s: 2.0 * cpu_s,
        }
    }

    #[test]
    fn rates_add_up_over_the_time_threads_had_their_cpus() {
        let sample = Sample(vec![taken(100, 1.0), taken(100, 0.5)]);
        assert_eq!(sample.per_second(), 300.0);
        assert_eq!(sample.times_s(), (1.5, 3.0));
        assert_eq!(Sample(vec![taken(1000, 1e-6)]).each_ns(), 1.0);
        assert!(Sample(vec![taken(0, 0.0)]).each_ns().is_finite());
    }

    /// Seen under software emulation: a thread that stored for 10 ms had its CPU for no time at all.
    #[test]
    fn no_cpu_time_is_not_believed() {
        let odd = Taken {
            amount: 1000,
            cpu_s: 0.0,
            wall_s: 0.016,
        };
        assert_eq!(Sample(vec![odd]).per_second(), 1e6);
    }

    /// Every line is reached, also where parts do not end with a chunk, and no other.
    #[test]
    fn parts_are_gone_through_from_any_place_on_and_round() {
        let cpu = crate::hardware::threads::allowed_cpus().unwrap()[0];
        let part_lines = 2 * CHUNK_LINES + 3;
        let mut lines = vec![Line([1; 8]); 2 * part_lines + 1];
        let mut rng = Rng::new(3);
        let untouched = |lines: &[Line]| lines.iter().filter(|line| line.0 == [1; 8]).count();
        // How far a sample comes is the machine's matter.
        for _ in 0..1000 {
            let time = Duration::from_micros(100);
            let operation = Operation::WriteNontemporal;
            let sample = stream(&[cpu, cpu], &mut lines, operation, &mut rng, time).unwrap();
            assert_eq!(sample.0.len(), 2);
            for taken in &sample.0 {
                assert!(taken.amount > 0 && taken.amount % 64 == 0, "{taken:?}");
            }
            if untouched(&lines) == 1 {
                break;
            }
        }
        assert_eq!(untouched(&lines), 1);
        assert_eq!(untouched(&lines[2 * part_lines..]), 1);
    }
}
