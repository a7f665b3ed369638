//! Which figures there are, in which order they are taken, and how long each may take.

use std::time::{Duration, Instant};

/// What is done to a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    Read,
    Write,
    WriteNontemporal,
    CopyNontemporal,
}

pub(crate) const OPERATIONS: [Operation; 4] = [
    Operation::Read,
    Operation::Write,
    Operation::WriteNontemporal,
    Operation::CopyNontemporal,
];

/// One figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cell {
    /// So many threads of a node (position among those with CPUs) at a target, bytes/s.
    Stream {
        from: usize,
        target: usize,
        threads: usize,
        operation: Operation,
    },
    /// A chain of loads, ns each.
    ReadLatency { from: usize, target: usize },
    /// A store and a fence, ns.
    WriteLatency { from: usize, target: usize },
    /// A chain of loads in the cache of a node, ns each.
    CacheLatency { from: usize },
    /// One thread's loads from the cache of a node, bytes/s.
    CacheRead { from: usize },
}

/// All figures of nodes with these thread counts and of so many targets.
pub(crate) fn cells(thread_counts: &[Vec<usize>], targets: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (from, counts) in thread_counts.iter().enumerate() {
        for target in 0..targets {
            for &threads in counts {
                cells.extend(OPERATIONS.map(|operation| Cell::Stream {
                    from,
                    target,
                    threads,
                    operation,
                }));
            }
            cells.push(Cell::ReadLatency { from, target });
            cells.push(Cell::WriteLatency { from, target });
        }
        cells.push(Cell::CacheLatency { from });
        cells.push(Cell::CacheRead { from });
    }
    cells
}

/// Shortest time in which something is measured.
const SHORTEST: Duration = Duration::from_micros(200);
/// Longest: a stop is heeded between two.
const LONGEST: Duration = Duration::from_millis(250);

/// Divides the time that is left among what is left to do.
pub(crate) struct Budget {
    end: Instant,
    left: u64,
}

impl Budget {
    pub(crate) fn new(seconds: f64, steps: u64) -> Budget {
        Budget {
            end: Instant::now() + Duration::from_secs_f64(seconds),
            left: steps,
        }
    }

    /// How long the next step may take.
    pub(crate) fn next(&mut self) -> Duration {
        let left = self.end.saturating_duration_since(Instant::now());
        let share = left.div_f64(self.left.max(1) as f64);
        self.left = self.left.saturating_sub(1);
        share.clamp(SHORTEST, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_and_target_is_in_the_schedule_once() {
        let cells = cells(&[vec![1, 2, 3], vec![1]], 3);
        // Per node and target: four operations per count and two latencies; per node two of its cache.
        assert_eq!(cells.len(), 3 * (4 * 3 + 2) + 2 + 3 * (4 + 2) + 2);
        for (index, cell) in cells.iter().enumerate() {
            assert!(!cells[..index].contains(cell), "{cell:?} twice");
        }
    }

    #[test]
    fn what_is_left_of_the_time_goes_to_what_is_left_to_do() {
        let mut budget = Budget::new(1000.0, 1_000_000);
        let first = budget.next();
        assert!(
            first <= Duration::from_millis(1) && first >= SHORTEST,
            "{first:?}"
        );
        // Much time for few steps, and none for many.
        assert_eq!(Budget::new(1000.0, 2).next(), LONGEST);
        let mut late = Budget::new(0.0, 2);
        assert_eq!([late.next(), late.next(), late.next()], [SHORTEST; 3]);
    }
}
