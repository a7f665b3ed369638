//! What small accesses and waiting tell: the grain of a medium, the lines that a CPU keeps on their way, the queue of the
//! controller that memories of a node share.
//!
//! ```text
//!   grain    accesses of less take as long as one of it, where the medium is full: more CPUs get no more
//!   queue    lines on their way that it does not hold wait (PATS §III-B5):
//!              threads * lines of each - queue = (wait + latency) * lines through per ns
//!            a straight line over the threads, whose slope is the lines of each and whose offset is the queue
//! ```

use egeria_machine::{Controller, NodeId};
use egeria_stats::statistics::median;

use crate::LINE_BYTES;
use crate::figures::{Calibration, SmallAccesses, Wait};

/// Twice as many CPUs get no more than this of what half of them get, where the medium is full.
const MAX_MORE: f64 = 1.25;
/// Accesses of fewer bytes than the grain are not fewer per second than this share of those of a line.
const SAME_RATE: f64 = 0.85;
/// So much longer than alone a load takes where it waits.
const MIN_WAIT: f64 = 1.2;
/// So many of the fewest threads behind which loads wait tell most of the queue: with more of them, much else changes.
const FIRST: usize = 5;
/// As long as each adds about as many lines: within this share.
const MAX_BEND: f64 = 0.25;
/// And no more lines wait than so many times the queue.
const MAX_REACH: f64 = 4.0;

/// The queue before two memories, and how many lines each thread at one of them keeps on their way.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Queue {
    pub(crate) queue_lines: f64,
    pub(crate) lines: f64,
    /// Lines that waited at most, as a multiple of the queue: the fewer, the closer it is known.
    reach: f64,
    /// Whether that is close enough to say how long it is.
    is_known: bool,
}

impl Calibration {
    /// What the medium moves at least for an access at a random place, bytes; `None` where too few CPUs tried to fill it.
    pub(crate) fn granularity_bytes(&self, memory: usize) -> Option<u64> {
        let small: Vec<&SmallAccesses> = (self.small.iter())
            .filter(|small| small.memory == memory)
            .collect();
        // Stores need no waiting, so they fill the medium first.
        let of_writes = grain(&small, |small| small.nontemporal_write_bytes_s);
        of_writes.or_else(|| grain(&small, |small| small.read_bytes_s))
    }

    /// Lines of loads and of stores that one CPU has on their way where none waits for another; `None` where that was not
    /// measured.
    pub(crate) fn lines_at_once(&self, memory: usize) -> Option<[f64; 2]> {
        let mut small = self.small.iter();
        let alone = small.find(|small| {
            (small.memory, small.threads, small.bytes) == (memory, 1, LINE_BYTES as u64)
        })?;
        let mut latencies = self.latencies.iter();
        let latency = latencies
            .find(|latency| latency.memory == memory && latency.cpu_node == alone.cpu_node)?;
        let lines = |latency_ns: f64, bytes_s: f64| latency_ns * bytes_s / 1e9 / LINE_BYTES as f64;
        Some([
            lines(latency.read_ns, alone.read_bytes_s),
            lines(latency.write_ns, alone.nontemporal_write_bytes_s),
        ])
    }

    /// The queue that loads from other memories of the node stand in behind lines of this one; `None` where they do not wait.
    pub(crate) fn queue_behind(&self, beside: usize, is_written: bool) -> Option<Queue> {
        // A memory of another node has a queue of its own.
        let node = |memory: usize| self.memories.get(memory).map(|memory| memory.node);
        let waits = (self.waits.iter())
            .filter(|wait| wait.beside == beside && wait.is_written == is_written)
            .filter(|wait| node(wait.memory) == node(beside));
        let waits: Vec<&Wait> = waits.collect();
        let mut points: Vec<(f64, f64)> = (waits.iter())
            .filter_map(|wait| self.waiting(wait))
            .collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        let first = &points[..points.len().min(FIRST)];
        let known = queue_of(first)
            .filter(|queue| queue.reach <= MAX_REACH && queue.is_straight(first))
            .map(|queue| Queue {
                is_known: true,
                ..queue
            });
        known.or_else(|| queue_of(&points))
    }

    /// Threads, and how many of their lines are on their way but not held by the queue.
    fn waiting(&self, wait: &Wait) -> Option<(f64, f64)> {
        let latency = |memory: usize| {
            let mut latencies = self.latencies.iter();
            latencies.find(|latency| latency.memory == memory && latency.cpu_node == wait.cpu_node)
        };
        let (alone, beside) = (latency(wait.memory)?, latency(wait.beside)?);
        let own_ns = if wait.is_written {
            beside.write_ns
        } else {
            beside.read_ns
        };
        let waited_ns = wait.read_ns - alone.read_ns;
        let lines_ns = wait.bytes_s / LINE_BYTES as f64 / 1e9;
        let is_seen = wait.read_ns >= MIN_WAIT * alone.read_ns;
        is_seen.then_some((f64::from(wait.threads), (waited_ns + own_ns) * lines_ns))
    }

    /// The queue of a node's controller, as far as loads were seen to wait in it.
    pub(crate) fn controllers(&self, node: NodeId) -> Vec<Controller> {
        let memories = self.memories.iter().enumerate();
        let of_node = memories.filter(|(_, memory)| memory.node == node);
        let queues = of_node.flat_map(|(memory, _)| {
            [false, true].map(|is_written| self.queue_behind(memory, is_written))
        });
        let queues = queues.flatten().filter(|queue| queue.is_known);
        let closest = queues.min_by(|one, other| one.reach.total_cmp(&other.reach));
        let controller = |queue: Queue| Controller {
            id: 0,
            queue_lines: queue.queue_lines.round().clamp(1.0, 65_536.0) as u32,
        };
        closest.map(controller).into_iter().collect()
    }
}

/// The largest size whose accesses are as many as those of a line, where the medium is full.
fn grain(small: &[&SmallAccesses], bytes_s: impl Fn(&SmallAccesses) -> f64) -> Option<u64> {
    let all = small.iter().map(|small| small.threads).max()?;
    let rate = |threads: u32, bytes: u64| {
        let mut of = small.iter();
        let found = of.find(|small| (small.threads, small.bytes) == (threads, bytes))?;
        Some(bytes_s(found) / bytes as f64)
    };
    let line = LINE_BYTES as u64;
    let fewer = small.iter().map(|small| small.threads);
    let fewer = fewer.filter(|&threads| 2 * threads <= all).max()?;
    let lines_s = rate(all, line)?;
    let per_cpu = f64::from(all) / f64::from(fewer) / 2.0;
    if lines_s > MAX_MORE * per_cpu * rate(fewer, line)? {
        return None;
    }
    let sizes = small.iter().map(|small| small.bytes);
    let is_as_many =
        |bytes: &u64| rate(all, *bytes).is_some_and(|found| found >= SAME_RATE * lines_s);
    sizes.filter(is_as_many).max()
}

impl Queue {
    /// Whether each point is about as far from the next as the lines of a thread say.
    fn is_straight(&self, points: &[(f64, f64)]) -> bool {
        points.windows(2).all(|pair| {
            let slope = (pair[1].1 - pair[0].1) / (pair[1].0 - pair[0].0);
            (slope / self.lines - 1.0).abs() <= MAX_BEND
        })
    }
}

/// What points say; two of them are straight, whatever they are.
fn queue_of(points: &[(f64, f64)]) -> Option<Queue> {
    const LEAST: usize = 3;
    if points.len() < LEAST {
        return None;
    }
    let (lines, offset) = line_through(points)?;
    (lines >= 1.0 && offset <= -1.0).then(|| Queue {
        queue_lines: -offset,
        lines,
        reach: points.iter().map(|point| point.1).fold(0.0, f64::max) / -offset,
        is_known: false,
    })
}

/// Slope and offset of a line through most of the points: the middle of the slopes between any two of them, and of the offsets
/// that go with it.
fn line_through(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let mut slopes = Vec::new();
    for (at, one) in points.iter().enumerate() {
        let others = points[at + 1..].iter().filter(|other| other.0 != one.0);
        slopes.extend(others.map(|other| (other.1 - one.1) / (other.0 - one.0)));
    }
    let slope = median(&slopes)?;
    let offsets: Vec<f64> = points
        .iter()
        .map(|point| point.1 - slope * point.0)
        .collect();
    Some((slope, median(&offsets)?))
}

#[cfg(test)]
mod tests {
    use egeria_machine::MemoryKind;
    use proptest::prelude::*;

    use super::*;
    use crate::figures::{Latency, MeasuredMemory};
    use crate::schedule::SMALL_BYTES;

    const NODE: NodeId = NodeId(0);

    fn small(threads: u32, bytes: u64, accesses_s: f64) -> SmallAccesses {
        SmallAccesses {
            cpu_node: NODE,
            memory: 0,
            threads,
            bytes,
            read_bytes_s: accesses_s * bytes as f64,
            nontemporal_write_bytes_s: accesses_s * bytes as f64,
        }
    }

    proptest! {
        #[test]
        fn the_grain_of_a_full_medium_is_found(grain in prop::sample::select(vec![64_u64, 128, 256, 512]), threads in 1..64_u32) {
            let capacity_bytes_s = 10e9;
            let mut calibration = Calibration::default();
            for threads in [threads, 2 * threads] {
                for bytes in SMALL_BYTES.map(|bytes| bytes as u64) {
                    let accesses_s = capacity_bytes_s / bytes.next_multiple_of(grain) as f64;
                    calibration.small.push(small(threads, bytes, accesses_s));
                }
            }
            prop_assert_eq!(calibration.granularity_bytes(0), Some(grain));
        }

        /// More CPUs get more: what holds them up is not the medium.
        #[test]
        fn nothing_is_said_of_a_medium_that_is_not_full(threads in 1..64_u32) {
            let mut calibration = Calibration::default();
            for threads in [threads, 2 * threads] {
                for bytes in SMALL_BYTES.map(|bytes| bytes as u64) {
                    calibration.small.push(small(threads, bytes, f64::from(threads) * 1e6));
                }
            }
            prop_assert_eq!(calibration.granularity_bytes(0), None);
        }

        #[test]
        fn the_queue_is_found_from_how_long_loads_wait(
            queue in 20.0..200.0_f64,
            lines in 10.0..60.0_f64,
            bytes_s in 1e9..100e9_f64,
        ) {
            let mut calibration = Calibration {
                memories: [0, 1].map(|_| MeasuredMemory {
                    node: NODE,
                    kind: MemoryKind::Dram,
                    path: None,
                    is_direct: true,
                    bytes: 0,
                    modules: None,
                }).to_vec(),
                latencies: [0, 1].map(|memory| Latency { cpu_node: NODE, memory, read_ns: 80.0, write_ns: 30.0 }).to_vec(),
                ..Calibration::default()
            };
            for threads in 1..=16 {
                let lines_ns = bytes_s / 64e9;
                let waiting = (f64::from(threads) * lines - queue - 30.0 * lines_ns).max(0.0);
                calibration.waits.push(Wait {
                    cpu_node: NODE,
                    memory: 0,
                    beside: 1,
                    threads,
                    is_written: true,
                    read_ns: 80.0 + waiting / lines_ns,
                    bytes_s,
                });
            }
            let points = calibration.waits.iter().filter(|wait| wait.read_ns >= MIN_WAIT * 80.0);
            prop_assume!(points.count() >= 3);
            let found = calibration.queue_behind(1, true).unwrap();
            prop_assert!((found.queue_lines / queue - 1.0).abs() < 0.01, "{found:?}");
            prop_assert!((found.lines / lines - 1.0).abs() < 0.01, "{found:?}");
            // The fewest threads behind which loads wait are near enough to the queue to tell how long it is.
            let first = (queue + 30.0 * bytes_s / 64e9) / lines + FIRST as f64;
            let said: Vec<u32> = calibration.controllers(NODE).iter().map(|one| one.queue_lines).collect();
            if first * lines < MAX_REACH * queue {
                prop_assert_eq!(said, vec![queue.round() as u32]);
            }
            // That of another node is not behind the same queue.
            calibration.memories[0].node = NodeId(1);
            prop_assert_eq!(calibration.queue_behind(1, true), None);
            // Nobody waits behind the other memory.
            prop_assert_eq!(calibration.queue_behind(0, true), None);
        }
    }
}
