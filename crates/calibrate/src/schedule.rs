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

/// CPUs of a node (position among those with CPUs) that read a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowCell {
    pub(crate) from: usize,
    pub(crate) target: usize,
    pub(crate) threads: usize,
}

/// All pairs of flows between nodes, by half of the CPUs each, so that two fit on a node. `home` is the node of each target, among
/// those with CPUs; each target is another node's own memory.
pub(crate) fn pairs(thread_counts: &[Vec<usize>], homes: &[Option<usize>]) -> Vec<[FlowCell; 2]> {
    let mut flows = Vec::new();
    for (from, counts) in thread_counts.iter().enumerate() {
        let most = counts.iter().copied().max().unwrap_or(0);
        let half = counts
            .iter()
            .copied()
            .filter(|count| 2 * count <= most)
            .max();
        let Some(threads) = half else {
            // A single CPU cannot be on two ways at once, so not all of them can be compared.
            return Vec::new();
        };
        let others = homes
            .iter()
            .enumerate()
            .filter(|(_, home)| home.is_some_and(|home| home != from));
        flows.extend(others.map(|(target, _)| FlowCell {
            from,
            target,
            threads,
        }));
    }
    let mut pairs = Vec::new();
    if thread_counts.len() > 2 {
        for (at, one) in flows.iter().enumerate() {
            pairs.extend(flows[at + 1..].iter().map(|other| [*one, *other]));
        }
    }
    pairs
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
    fn all_ways_between_three_nodes_are_paired() {
        let homes = [Some(0), Some(1), None, Some(2)];
        let pairs = pairs(&[vec![1, 2, 4], vec![1, 2, 3], vec![1, 2]], &homes);
        assert_eq!(pairs.len(), 6 * 5 / 2);
        for [one, other] in &pairs {
            assert_ne!(one, other);
            for flow in [one, other] {
                assert!(homes[flow.target].is_some_and(|home| home != flow.from));
                assert_eq!(flow.threads, [2, 1, 1][flow.from]);
            }
        }
    }

    #[test]
    fn two_nodes_and_single_cpus_have_no_pairs() {
        let homes = [Some(0), Some(1), Some(2)];
        assert!(super::pairs(&[vec![1, 2], vec![1, 2]], &homes[..2]).is_empty());
        assert!(super::pairs(&[vec![1, 2], vec![1], vec![1, 2]], &homes).is_empty());
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
