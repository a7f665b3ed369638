//! Measures what threads gain from sharing a last-level cache (NThread §III-D).

use std::sync::Barrier;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use egeria_machine::{AccessKind, EmulatedNode, Machine};

use super::access::Access;
use super::machine::Emulation;
use super::self_test::{SelfTest, drive};
use super::state::{EmulatedThread, EmulationError};
use crate::{PoolIndex, PoolOffset};

/// Computing before each read, machine ns: the file-system code that the profile's
/// calibration assumes.
const SOFTWARE_NS: u64 = 300;
/// Each kind is measured this often, in turns, and the median counts: a measurement is slow if other programs take the
/// host's CPUs for too long.
const TURNS: usize = 5;
/// Bytes of a read.
const BYTES: u64 = 4096;

/// Two threads that read, and what they share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readers {
    /// One file, both on its node: every other read finds its bytes cached.
    Together,
    /// One file per thread, on the thread's node. Only the cache sharing is missing here, not locality: the gain of
    /// [`Readers::Together`] over this is NThread's 31.5 %.
    OwnFiles,
    /// One file, one of them on its node and one on another.
    OwnNodes,
}

/// One measurement of two readers of 4 KiB pieces. Times are of a read and the computing
/// before it (300 ns), in the mean over both.
#[derive(Clone, PartialEq, Debug)]
pub struct SharingRow {
    /// What they have in common.
    pub readers: Readers,
    /// Mean time by the profile, machine ns.
    pub expected_ns: f64,
    /// Mean time as measured, machine ns.
    pub measured_ns: f64,
    /// Speed-up of reading together, by the profile.
    pub expected_gain: f64,
    pub measured_gain: f64,
}

impl SharingRow {
    /// Deviation of the measured speed, as a share: -0.03 is 3 % too slow.
    pub fn deviation(&self) -> f64 {
        self.expected_ns / self.measured_ns - 1.0
    }

    /// Deviation of the measured gain, as a share.
    pub fn gain_deviation(&self) -> f64 {
        self.measured_gain / self.expected_gain - 1.0
    }
}

/// Measures the three kinds of [`Readers`], in the median of five rows. Empty if nothing can be compared: fewer than
/// two nodes, a node with one core or without an LLC, a medium that two readers exhaust, no timing.
///
/// # Errors
/// [`EmulationError::NotEmulated`], or [`EmulationError::TooMany`] when it is too large.
pub fn sharing_test(machine: &Machine, test: &SelfTest) -> Result<Vec<SharingRow>, EmulationError> {
    let state = Emulation::private(machine)?;
    state.set_timing(true);
    let nodes = machine.emulated.as_ref().map(|emulated| &emulated.nodes);
    let Some([first, .., last]) = nodes.map(Vec::as_slice) else {
        return Ok(Vec::new());
    };
    let fit = |node: &EmulatedNode| node.has_llc() && node.cores > 1;
    if !state.is_on() || !fit(first) || !fit(last) || is_exhausted(first) {
        return Ok(Vec::new());
    }
    let kinds = [Readers::Together, Readers::OwnFiles, Readers::OwnNodes];
    let mut turns: [Vec<f64>; 3] = Default::default();
    for _ in 0..TURNS {
        for (readers, measured) in kinds.into_iter().zip(&mut turns) {
            measured.push(measure(&state, test, readers));
        }
    }
    let row = |(readers, mut measured_ns): (Readers, Vec<f64>)| {
        measured_ns.sort_by(f64::total_cmp);
        SharingRow {
            readers,
            expected_ns: expected_ns((first, last), readers),
            measured_ns: measured_ns[TURNS / 2],
            expected_gain: 1.0,
            measured_gain: 1.0,
        }
    };
    let mut rows: Vec<SharingRow> = kinds.into_iter().zip(turns).map(row).collect();
    let (expected_ns, measured_ns) = (rows[0].expected_ns, rows[0].measured_ns);
    for row in &mut rows {
        row.expected_gain = row.expected_ns / expected_ns;
        row.measured_gain = row.measured_ns / measured_ns;
    }
    Ok(rows)
}

/// Whether two readers, one of them remote, exceed the medium's bandwidth.
fn is_exhausted(node: &EmulatedNode) -> bool {
    let share = |remote| {
        let service_ns = node.service_ns(BYTES, AccessKind::Read, remote, 2);
        service_ns / read_ns(node, remote, 2)
    };
    share(false) + share(false).max(share(true)) > 1.0
}

fn read_ns(node: &EmulatedNode, remote: bool, threads: u32) -> f64 {
    SOFTWARE_NS as f64 + node.undisturbed_ns(BYTES, AccessKind::Read, remote, threads)
}

/// Mean time of a read with its computing, by the profile.
pub(super) fn expected_ns((first, last): (&EmulatedNode, &EmulatedNode), readers: Readers) -> f64 {
    let mean_of_rates = |a: f64, b: f64| 2.0 / (1.0 / a + 1.0 / b);
    match readers {
        Readers::Together => {
            let cached_ns = SOFTWARE_NS as f64 + first.cached_ns(BYTES);
            (read_ns(first, false, 2) + cached_ns) / 2.0
        }
        Readers::OwnFiles => mean_of_rates(read_ns(first, false, 1), read_ns(last, false, 1)),
        Readers::OwnNodes => mean_of_rates(read_ns(first, false, 2), read_ns(first, true, 2)),
    }
}

/// The positions that one thread reads.
pub(super) struct Course<'a> {
    pub(super) home: usize,
    memory_node: usize,
    pool: PoolIndex,
    /// Number of pieces given out so far, and how often each is read.
    given: &'a AtomicU64,
    times: u64,
}

impl Course<'_> {
    /// The courses of both readers; pieces that both read go to the next reader that asks.
    pub(super) fn of(readers: Readers, last: usize, given: &[AtomicU64; 2]) -> [Course<'_>; 2] {
        let course = |home, memory_node, thread: usize, times| Course {
            home,
            memory_node,
            // Separate pools, so that cache contents of one kind do not affect the next.
            pool: PoolIndex(readers as u8 * 2 + thread as u8),
            given: &given[thread],
            times,
        };
        match readers {
            Readers::Together => [course(0, 0, 0, 2), course(0, 0, 0, 2)],
            Readers::OwnFiles => [course(0, 0, 0, 1), course(last, last, 1, 1)],
            Readers::OwnNodes => [course(0, 0, 0, 1), course(last, 0, 1, 1)],
        }
    }

    pub(super) fn next(&self, state: &Emulation, thread: &EmulatedThread) -> Access<'static> {
        let memory = state.place_of(self.memory_node, None).unwrap_or(0);
        let piece = self.given.fetch_add(1, Relaxed) / self.times;
        let place = (self.pool, PoolOffset(piece * BYTES));
        state.touch(thread, self.memory_node, place, BYTES, AccessKind::Read);
        Access {
            place: memory,
            bytes: BYTES,
            kind: AccessKind::Read,
            cached_bytes: thread.take_cached(self.memory_node),
            computed_ns: SOFTWARE_NS,
            owed_ns: 0,
            pattern: thread.take_pattern(),
            at_once: false,
            in_burst: false,
            rest: &[],
        }
    }
}

/// Mean time of a read with its computing as measured once, machine ns.
fn measure(state: &Emulation, test: &SelfTest, readers: Readers) -> f64 {
    // Pieces are counted from 0 again.
    state.set_timing(true);
    let given = [AtomicU64::new(0), AtomicU64::new(0)];
    let ready = Barrier::new(2);
    let courses = Course::of(readers, state.node_count() - 1, &given);
    let reads_per_ns: f64 = std::thread::scope(|scope| {
        let handles = courses.map(|course| {
            let ready = &ready;
            scope.spawn(move || {
                let next = |thread: &EmulatedThread| course.next(state, thread);
                drive(state, course.home, test.row, ready, next)
            })
        });
        let rates = handles.map(|handle| handle.join().unwrap_or(0.0));
        rates.iter().sum()
    });
    2.0 / (reads_per_ns * state.dilation())
}
