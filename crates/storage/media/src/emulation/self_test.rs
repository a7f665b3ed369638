//! Measures with a wall clock whether emulated accesses take the times of the profile.

use std::sync::Barrier;
use std::time::Duration;

use egeria_machine::costs::{self, AccessCosts, Beside, Pattern};
use egeria_machine::{AccessKind, Machine};

use super::access::Access;
use super::clock;
use super::machine::Emulation;
use super::state::{EmulatedThread, EmulationError};

/// What to measure.
#[derive(Clone, Debug)]
pub struct SelfTest {
    /// Host time of each row.
    pub row: Duration,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Sizes of accesses.
    pub bytes: Vec<u64>,
}

impl Default for SelfTest {
    /// 1 to 8 threads, 4 and 64 KiB, 0.2 s each: about 13 s on two nodes.
    fn default() -> SelfTest {
        SelfTest {
            row: Duration::from_millis(200),
            threads: (1..=8).collect(),
            bytes: vec![4 << 10, 64 << 10],
        }
    }
}

/// One measurement: threads of one node that only access the memory of one node.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Threads, all on one node.
    pub threads: u32,
    pub kind: AccessKind,
    /// Whether the memory is another node's.
    pub remote: bool,
    /// Bytes of an access.
    pub bytes: u64,
    /// Mean time of an access by the profile, machine ns.
    pub expected_ns: f64,
    /// Mean time of an access as measured, machine ns.
    pub measured_ns: f64,
    /// Bandwidth of the threads together by the profile, bytes/s of machine time.
    pub expected_bytes_s: f64,
    /// Bandwidth of the threads together as measured, bytes/s of machine time.
    pub measured_bytes_s: f64,
}

impl Row {
    /// Deviation of the measured bandwidth, as a share: -0.03 is 3 % too slow.
    pub fn deviation(&self) -> f64 {
        self.measured_bytes_s / self.expected_bytes_s - 1.0
    }
}

/// What a row measures: threads, kind, whether the memory is remote, bytes.
pub(super) type Point = (u32, AccessKind, bool, u64);

/// Mean time of an access by the profile, machine ns, when the threads run on
/// `cores` virtual cores: no more than `cores` of them access at once, the others queue.
pub(super) fn expected_ns(
    machine: &Machine,
    (threads, kind, remote, bytes): Point,
    cores: u32,
) -> f64 {
    let at_once = threads.min(cores).max(1);
    let costs = AccessCosts::of(machine);
    let access = costs::Access {
        kind,
        home: if remote { costs.cores.len() - 1 } else { 0 },
        place: 0,
        bytes,
        pattern: Pattern::Sequential,
        at_once: false,
    };
    let beside = Beside {
        accessors: f64::from(at_once),
        written_share: f64::from(u8::from(kind == AccessKind::Write)),
        shared_reads: false,
    };
    let service_ns = costs.service_ns(&access, beside);
    let access_ns = costs.access_ns(&access, beside.accessors, 0.0);
    let operation_ns = access_ns.max(service_ns * f64::from(at_once));
    operation_ns * f64::from(threads) / f64::from(at_once)
}

/// Measures the memory of the first node from its own threads and from those of the last
/// (nothing remote is measured when there is one node only).
///
/// # Errors
/// [`EmulationError::NotEmulated`], or [`EmulationError::TooMany`] when it is too large.
pub fn self_test(machine: &Machine, test: &SelfTest) -> Result<Vec<Row>, EmulationError> {
    let state = Emulation::private(machine)?;
    state.set_timing(true);
    if !state.is_on() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for kind in [AccessKind::Read, AccessKind::Write] {
        for remote in [false, true] {
            if remote && state.node_count() == 1 {
                continue;
            }
            for &bytes in &test.bytes {
                for &threads in test.threads.iter().filter(|&&threads| threads > 0) {
                    let point = (threads, kind, remote, bytes);
                    rows.push(measure(&state, machine, test.row, point));
                }
            }
        }
    }
    Ok(rows)
}

fn measure(state: &Emulation, machine: &Machine, duration: Duration, point: Point) -> Row {
    let (threads, kind, remote, bytes) = point;
    let home = if remote { state.node_count() - 1 } else { 0 };
    let cores = state.nodes()[home].cores().len() as u32;
    let expected_ns = expected_ns(machine, point, cores);
    let access = Access {
        place: 0,
        bytes,
        kind,
        cached_bytes: 0,
        computed_ns: 0,
        owed_ns: 0,
        pattern: Pattern::Sequential,
        at_once: false,
        in_burst: false,
        rest: &[],
    };
    let ready = Barrier::new(threads as usize);
    let accesses_per_ns: f64 = std::thread::scope(|scope| {
        let run = || drive(state, home, duration, &ready, |_| access);
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or(0.0))
            .sum()
    });
    // Rates before dilation.
    let accesses_per_ns = accesses_per_ns * state.dilation();
    Row {
        threads,
        kind,
        remote,
        bytes,
        expected_ns,
        measured_ns: f64::from(threads) / accesses_per_ns,
        expected_bytes_s: f64::from(threads) * bytes as f64 / expected_ns * 1e9,
        measured_bytes_s: accesses_per_ns * bytes as f64 * 1e9,
    }
}

/// One thread of a node: accesses per ns, not dilated, over the middle of the time.
pub(super) fn drive(
    state: &Emulation,
    home: usize,
    duration: Duration,
    ready: &Barrier,
    next: impl Fn(&EmulatedThread) -> Access<'static>,
) -> f64 {
    let thread = EmulatedThread::default();
    state.place(&thread, u64::MAX / 2, 1 << home);
    ready.wait();
    let began_ns = state.now_ns();
    let length_ns = duration.as_nanos() as u64;
    let (mut first, mut last) = (None, (began_ns, 0u64));
    let mut accesses = 0;
    loop {
        let access = next(&thread);
        state.charge(&thread, clock::now_ns(), access);
        accesses += 1;
        let now_ns = state.now_ns();
        // The start, when all threads begin at once, is left out.
        if now_ns >= began_ns + length_ns / 5 && first.is_none() {
            first = Some((now_ns, accesses));
        }
        last = if now_ns >= began_ns + length_ns {
            break;
        } else {
            (now_ns, accesses)
        };
    }
    state.release_thread(&thread);
    let first = first.unwrap_or((began_ns, 0));
    (last.1.saturating_sub(first.1)) as f64 / last.0.saturating_sub(first.0).max(1) as f64
}
