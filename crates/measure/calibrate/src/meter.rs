//! What is measured, and who takes the samples.

use std::time::Duration;

use egeria_machine::{Machine, NodeId};
use egeria_stats::statistics::{median, spread};

use crate::CalibrateError;
use crate::figures::{
    CacheFigures, Calibration, Latency, MeasuredMemory, NodeFlow, Pair, SmallAccesses, Stream, Wait,
};
use crate::schedule::{self, Cell, FlowCell, OPERATIONS, Operation, SMALL_OPERATIONS, Together};

/// Takes samples: of the memories of this machine, or of an emulated one.
pub(crate) trait Meter {
    /// One sample of a figure.
    fn take(&mut self, cell: Cell, time: Duration) -> Result<f64, CalibrateError>;

    /// One sample of two figures at once.
    fn take_together(&mut self, cell: Together, time: Duration)
    -> Result<[f64; 2], CalibrateError>;

    /// The shortest time in which a sample says something.
    fn shortest(&self) -> Duration;

    /// What was odd, a line each.
    fn warnings(&self) -> Vec<String>;
}

/// A node with CPUs that may be used.
#[derive(Clone, Debug)]
pub(crate) struct CpuSubject {
    pub(crate) node: NodeId,
    /// 1, 2, 4 … and all.
    pub(crate) thread_counts: Vec<usize>,
    pub(crate) cores: usize,
    /// CPUs that share no core with the first.
    pub(crate) apart: usize,
    /// Size of its last-level cache, where it is known.
    pub(crate) cache_bytes: Option<u64>,
}

/// Nodes and memories, which cells name by their positions here.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    pub(crate) cpus: Vec<CpuSubject>,
    pub(crate) memories: Vec<MeasuredMemory>,
    /// Of each memory that is a node's own: which of `cpus` that is.
    pub(crate) homes: Vec<Option<usize>>,
}

/// Figures with their samples.
pub(crate) struct Samples {
    pub(crate) cells: Vec<(Cell, Vec<f64>)>,
    pub(crate) together: Vec<(Together, [Vec<f64>; 2])>,
}

impl Subject {
    pub(crate) fn thread_counts(&self) -> Vec<Vec<usize>> {
        let counts = self.cpus.iter().map(|node| node.thread_counts.clone());
        counts.collect()
    }

    /// What is measured one after the other.
    pub(crate) fn cells(&self, nearest: &[usize]) -> Vec<Cell> {
        let cores: Vec<usize> = self.cpus.iter().map(|node| node.cores).collect();
        let mut cells = schedule::cells(&self.thread_counts(), self.memories.len());
        cells.extend(schedule::small_cells(&cores, nearest));
        cells
    }

    /// What is measured two at once.
    pub(crate) fn together(&self, nearest: &[usize]) -> Vec<Together> {
        let of = |count: fn(&CpuSubject) -> usize| self.cpus.iter().map(count).collect::<Vec<_>>();
        let mut together = schedule::pairs(&of(|node| node.cores), &self.homes);
        together.extend(schedule::waits(&of(|node| node.apart), nearest));
        together
    }

    /// Of each memory: which of `cpus` is nearest to it.
    pub(crate) fn nearest(&self, machine: &Machine) -> Vec<usize> {
        let nearest = |memory: &MeasuredMemory| {
            let from = (0..self.cpus.len()).min_by_key(|&from| {
                let node = self.cpus[from].node;
                (
                    node != memory.node,
                    machine.distance(node, memory.node),
                    from,
                )
            });
            from.unwrap_or(0)
        };
        self.memories.iter().map(nearest).collect()
    }

    /// The medians, each where it belongs.
    pub(crate) fn figures(&self, samples: &Samples) -> Calibration {
        Calibration {
            memories: self.memories.clone(),
            streams: self.streams(samples),
            latencies: self.latencies(samples),
            caches: self.caches(samples),
            pairs: self.pairs(samples),
            small: self.small(samples),
            waits: self.waits(samples),
            spread: samples.spread(),
            ..Calibration::default()
        }
    }

    fn streams(&self, samples: &Samples) -> Vec<Stream> {
        let mut streams = Vec::new();
        for (from, cpus) in self.cpus.iter().enumerate() {
            for target in 0..self.memories.len() {
                for &threads in &cpus.thread_counts {
                    let of = |operation| {
                        samples.median(Cell::Stream {
                            from,
                            target,
                            threads,
                            operation,
                        })
                    };
                    let [read, write, nontemporal, mixed] = OPERATIONS.map(of);
                    streams.push(Stream {
                        cpu_node: cpus.node,
                        memory: target,
                        threads: threads as u32,
                        read_bytes_s: read,
                        write_bytes_s: write,
                        nontemporal_write_bytes_s: nontemporal,
                        mixed_bytes_s: mixed,
                    });
                }
            }
        }
        streams
    }

    fn latencies(&self, samples: &Samples) -> Vec<Latency> {
        let pairs = (0..self.cpus.len())
            .flat_map(|from| (0..self.memories.len()).map(move |target| (from, target)));
        pairs
            .map(|(from, target)| Latency {
                cpu_node: self.cpus[from].node,
                memory: target,
                read_ns: samples.median(Cell::ReadLatency { from, target }),
                write_ns: samples.median(Cell::WriteLatency { from, target }),
            })
            .collect()
    }

    fn caches(&self, samples: &Samples) -> Vec<CacheFigures> {
        let figures = |(from, cpus): (usize, &CpuSubject)| {
            Some(CacheFigures {
                node: cpus.node,
                bytes: cpus.cache_bytes?,
                latency_ns: samples.median(Cell::CacheLatency { from }),
                read_bytes_s: samples.median(Cell::CacheRead { from }),
            })
        };
        self.cpus.iter().enumerate().filter_map(figures).collect()
    }

    fn pairs(&self, samples: &Samples) -> Vec<Pair> {
        let flow = |cell: FlowCell| NodeFlow {
            cpu_node: self.cpus[cell.from].node,
            memory: cell.target,
            threads: cell.threads as u32,
        };
        let pair = |(cell, rates): &(Together, [Vec<f64>; 2])| match cell {
            Together::Flows(cells) => Some(Pair {
                flows: cells.map(flow),
                read_bytes_s: medians(rates),
            }),
            Together::Wait(_) => None,
        };
        samples.together.iter().filter_map(pair).collect()
    }

    fn waits(&self, samples: &Samples) -> Vec<Wait> {
        let wait = |(cell, figures): &(Together, [Vec<f64>; 2])| match *cell {
            Together::Wait(cell) => {
                let [read_ns, bytes_s] = medians(figures);
                Some(Wait {
                    cpu_node: self.cpus[cell.from].node,
                    memory: cell.target,
                    beside: cell.beside,
                    threads: cell.threads as u32,
                    is_written: cell.operation != Operation::Read,
                    read_ns,
                    bytes_s,
                })
            }
            Together::Flows(_) => None,
        };
        samples.together.iter().filter_map(wait).collect()
    }

    fn small(&self, samples: &Samples) -> Vec<SmallAccesses> {
        let mut small = Vec::new();
        for (cell, _) in &samples.cells {
            let Cell::Small {
                from,
                target,
                threads,
                bytes,
                operation: Operation::Read,
            } = *cell
            else {
                continue;
            };
            let [read_bytes_s, nontemporal_write_bytes_s] = SMALL_OPERATIONS.map(|operation| {
                samples.median(Cell::Small {
                    from,
                    target,
                    threads,
                    bytes,
                    operation,
                })
            });
            small.push(SmallAccesses {
                cpu_node: self.cpus[from].node,
                memory: target,
                threads: threads as u32,
                bytes: bytes as u64,
                read_bytes_s,
                nontemporal_write_bytes_s,
            });
        }
        small
    }
}

impl Samples {
    /// How far the rounds of a figure lie apart, as a share of it: the median over all figures.
    fn spread(&self) -> Option<f64> {
        let single = self.cells.iter().map(|(_, values)| values);
        let double = self.together.iter().flat_map(|(_, values)| values);
        let all: Vec<f64> = single
            .chain(double)
            .filter_map(|values| spread(values))
            .collect();
        median(&all)
    }

    fn median(&self, wanted: Cell) -> f64 {
        let mut cells = self.cells.iter();
        let found = cells.find(|(cell, _)| *cell == wanted);
        found.map_or(0.0, |(_, samples)| median(samples).unwrap_or(0.0))
    }
}

fn medians(samples: &[Vec<f64>; 2]) -> [f64; 2] {
    [0, 1].map(|at| median(&samples[at]).unwrap_or(0.0))
}

#[cfg(test)]
mod tests {
    use egeria_machine::MemoryKind;

    use super::*;

    /// With its position as the only sample of each figure, every position stands in one figure.
    #[test]
    fn every_median_stands_where_it_belongs() {
        let node = |id: u16, thread_counts: &[usize]| CpuSubject {
            node: NodeId(id),
            thread_counts: thread_counts.to_vec(),
            cores: thread_counts.iter().copied().max().unwrap_or(0),
            apart: 1,
            cache_bytes: Some(1 << 20),
        };
        let memory = |id: u16| MeasuredMemory {
            node: NodeId(id),
            kind: MemoryKind::Dram,
            path: None,
            is_direct: true,
            bytes: 0,
            modules: None,
        };
        let subject = Subject {
            cpus: vec![node(0, &[1, 2, 4]), node(1, &[1, 2]), node(2, &[1, 2])],
            memories: [0, 1, 2, 0].map(memory).to_vec(),
            homes: vec![Some(0), Some(1), Some(2), None],
        };
        let nearest = [0, 1, 2, 0];
        let cells = subject.cells(&nearest);
        let together = subject.together(&nearest);
        let mut positions = (0..).map(f64::from);
        let mut next = || positions.next().into_iter().collect::<Vec<f64>>();
        let samples = Samples {
            cells: cells.iter().map(|cell| (*cell, next())).collect(),
            together: together
                .iter()
                .map(|cell| (*cell, [next(), next()]))
                .collect(),
        };
        let figures = subject.figures(&samples);
        let mut found: Vec<f64> = Vec::new();
        for stream in figures.streams {
            found.extend([stream.read_bytes_s, stream.write_bytes_s]);
            found.extend([stream.nontemporal_write_bytes_s, stream.mixed_bytes_s]);
        }
        for latency in figures.latencies {
            found.extend([latency.read_ns, latency.write_ns]);
        }
        for cache in figures.caches {
            found.extend([cache.latency_ns, cache.read_bytes_s]);
        }
        for pair in figures.pairs {
            found.extend(pair.read_bytes_s);
        }
        for small in figures.small {
            found.extend([small.read_bytes_s, small.nontemporal_write_bytes_s]);
        }
        for wait in figures.waits {
            found.extend([wait.read_ns, wait.bytes_s]);
        }
        found.sort_by(f64::total_cmp);
        let expected = (0..cells.len() + 2 * together.len()).map(|position| position as f64);
        assert_eq!(found, expected.collect::<Vec<f64>>());
    }

    #[test]
    fn the_spread_is_that_of_the_middle_figure() {
        let latency = |from| Cell::ReadLatency { from, target: 0 };
        let samples = |cells: Vec<(Cell, Vec<f64>)>| Samples {
            cells,
            together: Vec::new(),
        };
        let three = samples(vec![
            (latency(0), vec![99.0, 100.0, 101.0]),
            (latency(1), vec![95.0, 100.0, 105.0]),
            (latency(2), vec![50.0, 100.0, 150.0]),
        ]);
        assert!((three.spread().unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(samples(vec![(latency(0), vec![7.0])]).spread(), None);
    }
}
