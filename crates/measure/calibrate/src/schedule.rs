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
    /// So many threads' small accesses at random places, bytes/s.
    Small {
        from: usize,
        target: usize,
        threads: usize,
        bytes: usize,
        operation: Operation,
    },
}

/// Sizes of small accesses, bytes.
pub(crate) const SMALL_BYTES: [usize; 6] = [64, 128, 256, 512, 1024, 4096];
/// What is done by small accesses.
pub(crate) const SMALL_OPERATIONS: [Operation; 2] = [Operation::Read, Operation::WriteNontemporal];

/// Small accesses to each target from the node whose position `nearest` says: lines by one core, which keeps as many on
/// their way as it can; all sizes by half of the cores and by all, for what more of them do not speed up fills the medium.
/// Two threads of one core share what it keeps on its way, so that they would look like a medium that is full.
pub(crate) fn small_cells(cores: &[usize], nearest: &[usize]) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (target, &from) in nearest.iter().enumerate() {
        let all = cores[from];
        let crowds = [(all / 2).max(1), all];
        let mut counts = vec![1, crowds[0], crowds[1]];
        counts.dedup();
        for operation in SMALL_OPERATIONS {
            for &threads in &counts {
                let sizes = match crowds.contains(&threads) {
                    true => &SMALL_BYTES[..],
                    false if threads == 1 => &SMALL_BYTES[..1],
                    false => &[],
                };
                cells.extend(sizes.iter().map(|&bytes| Cell::Small {
                    from,
                    target,
                    threads,
                    bytes,
                    operation,
                }));
            }
        }
    }
    cells
}

/// Two things at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Together {
    /// What each of two flows reads, bytes/s.
    Flows([FlowCell; 2]),
    /// A load, ns, and what the others get, bytes/s.
    Wait(WaitCell),
}

/// A load by one CPU of a node while others are at another memory of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WaitCell {
    pub(crate) from: usize,
    pub(crate) target: usize,
    pub(crate) beside: usize,
    pub(crate) threads: usize,
    pub(crate) operation: Operation,
}

/// So many numbers of threads are tried at most.
const MAX_CROWDS: usize = 16;

/// Loads from each target beside accesses to each other one of the same nearest node, by its CPUs that share no core with the one
/// that loads: `apart` says how many each node has.
pub(crate) fn waits(apart: &[usize], nearest: &[usize]) -> Vec<Together> {
    let mut waits = Vec::new();
    for (target, &from) in nearest.iter().enumerate() {
        let others = apart[from];
        let step = others.div_ceil(MAX_CROWDS).max(1);
        let others: Vec<usize> = (1..=others).step_by(step).collect();
        let besides =
            (0..nearest.len()).filter(|&beside| beside != target && nearest[beside] == from);
        for beside in besides {
            for operation in SMALL_OPERATIONS {
                let cells = others.iter().map(|&threads| WaitCell {
                    from,
                    target,
                    beside,
                    threads,
                    operation,
                });
                waits.extend(cells.map(Together::Wait));
            }
        }
    }
    waits
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

/// Cores of a node (position among those with CPUs) that read a target, with a thread each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowCell {
    pub(crate) from: usize,
    pub(crate) target: usize,
    pub(crate) threads: usize,
}

/// All pairs of flows between nodes, by a power of two of cores each, half of them at most: two fit on a node without sharing a
/// core, and queues are not so crowded that they look like links. `cores` says how many each node with CPUs has, `homes` which of
/// them is the home of each target; each target is another node's own memory.
pub(crate) fn pairs(cores: &[usize], homes: &[Option<usize>]) -> Vec<Together> {
    let mut flows = Vec::new();
    for (from, cores) in cores.iter().enumerate() {
        let Some(threads) = (cores / 2).checked_ilog2().map(|power| 1 << power) else {
            // A single core cannot be on two ways at once, so not all of them can be compared.
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
    if cores.len() > 2 {
        for (at, one) in flows.iter().enumerate() {
            let others = flows[at + 1..].iter();
            pairs.extend(others.map(|other| Together::Flows([*one, *other])));
        }
    }
    pairs
}

/// Longest: a stop is heeded between two.
const LONGEST: Duration = Duration::from_millis(250);

/// Divides the time that is left among what is left to do.
pub(crate) struct Budget {
    end: Instant,
    left: u64,
    shortest: Duration,
}

impl Budget {
    /// `shortest` is the shortest time in which something can be measured.
    pub(crate) fn new(seconds: f64, steps: u64, shortest: Duration) -> Budget {
        Budget {
            end: Instant::now() + Duration::from_secs_f64(seconds),
            left: steps,
            shortest,
        }
    }

    /// How long the next step may take.
    pub(crate) fn next(&mut self) -> Duration {
        let left = self.end.saturating_duration_since(Instant::now());
        let share = left.div_f64(self.left.max(1) as f64);
        self.left = self.left.saturating_sub(1);
        share.clamp(self.shortest, LONGEST)
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
        let pairs = pairs(&[4, 3, 2], &homes);
        assert_eq!(pairs.len(), 6 * 5 / 2);
        for pair in &pairs {
            let Together::Flows([one, other]) = pair else {
                panic!("{pair:?}");
            };
            assert_ne!(one, other);
            for flow in [one, other] {
                assert!(homes[flow.target].is_some_and(|home| home != flow.from));
                assert_eq!(flow.threads, [2, 1, 1][flow.from]);
            }
        }
    }

    #[test]
    fn two_nodes_and_single_cores_have_no_pairs() {
        let homes = [Some(0), Some(1), Some(2)];
        assert!(super::pairs(&[2, 2], &homes[..2]).is_empty());
        assert!(super::pairs(&[2, 1, 2], &homes).is_empty());
    }

    #[test]
    fn what_is_left_of_the_time_goes_to_what_is_left_to_do() {
        const SHORTEST: Duration = Duration::from_micros(200);
        let mut budget = Budget::new(1000.0, 1_000_000, SHORTEST);
        let first = budget.next();
        assert!(
            first <= Duration::from_millis(1) && first >= SHORTEST,
            "{first:?}"
        );
        // Much time for few steps, and none for many.
        assert_eq!(Budget::new(1000.0, 2, SHORTEST).next(), LONGEST);
        let mut late = Budget::new(0.0, 2, SHORTEST);
        assert_eq!([late.next(), late.next(), late.next()], [SHORTEST; 3]);
    }

    #[test]
    fn loads_wait_beside_other_memories_of_their_node_alone() {
        let waits = waits(&[3, 0], &[0, 0, 1]);
        // Of 4 CPUs 1, 2 and 3 are at the other memory; a single CPU cannot be at two.
        assert_eq!(waits.len(), 2 * 2 * 3);
        for wait in waits {
            let Together::Wait(cell) = wait else {
                panic!("{wait:?}");
            };
            assert_eq!((cell.from, cell.target + cell.beside), (0, 1));
            assert!((1..=3).contains(&cell.threads));
        }
    }

    #[test]
    fn small_accesses_are_of_one_core_of_half_of_them_and_of_all() {
        let cells = small_cells(&[1, 6], &[1, 0]);
        let mut threads: Vec<(usize, usize)> = Vec::new();
        for cell in &cells {
            if let Cell::Small {
                target,
                threads: count,
                ..
            } = cell
            {
                threads.push((*target, *count));
            }
        }
        threads.sort_unstable();
        threads.dedup();
        assert_eq!(threads, [(0, 1), (0, 3), (0, 6), (1, 1)]);
        assert_eq!(cells.len(), 2 * (1 + 2 * 6) + 2 * 6);
    }
}
