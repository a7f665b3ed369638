//! Every figure in every round, and the medians of them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use egeria_harness::statistics::median;
use egeria_machine::{Machine, NodeId};

use crate::CalibrateError;
use crate::bench::Bench;
use crate::figures::{CacheFigures, Calibration, Latency, MeasuredMemory, NodeFlow, Pair, Stream};
use crate::options::Options;
use crate::schedule::{self, Budget, Cell, FlowCell, OPERATIONS};
use crate::target::{CpuNode, Target};

/// Measures the machine this runs on, as `machine` describes it.
///
/// `progress` is told how many of how many steps are done, and what comes next. When `stop` is set, nothing is left
/// behind.
///
/// # Errors
/// When memory, threads or pools cannot be had, or somebody asked to stop.
pub fn measure(
    machine: &Machine,
    options: &Options,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64, &str),
) -> Result<Calibration, CalibrateError> {
    if machine.is_emulated() {
        let name = machine.name.clone();
        return Err(CalibrateError::Emulated { name });
    }
    let is_stopped = || stop.load(Ordering::Acquire);
    progress(0, 1, "getting memory");
    let root = Path::new("/");
    let (mut bench, warnings, buffer_bytes) = Bench::set_up(root, machine, options, &is_stopped)?;
    let counts: Vec<Vec<usize>> = bench.from.iter().map(CpuNode::thread_counts).collect();
    let cells = schedule::cells(&counts, bench.targets.len());
    let rounds = options.rounds.max(1);
    let pairs = schedule::pairs(&counts, &bench.homes());
    let steps = (cells.len() + pairs.len()) as u64 * u64::from(rounds);
    let mut budget = Budget::new(options.seconds, steps);
    let mut samples = vec![Vec::with_capacity(rounds as usize); cells.len()];
    let mut both = vec![[const { Vec::new() }; 2]; pairs.len()];
    let begun = Instant::now();
    let mut done = 0;
    for _ in 0..rounds {
        for (cell, samples) in cells.iter().zip(&mut samples) {
            if is_stopped() {
                return Err(CalibrateError::Stopped);
            }
            progress(done, steps, "measuring memory");
            samples.push(bench.take(*cell, budget.next())?);
            done += 1;
        }
        for (pair, both) in pairs.iter().zip(&mut both) {
            if is_stopped() {
                return Err(CalibrateError::Stopped);
            }
            progress(done, steps, "measuring two flows at once");
            let rates = bench.take_both(*pair, budget.next())?;
            both.iter_mut()
                .zip(rates)
                .for_each(|(samples, rate)| samples.push(rate));
            done += 1;
        }
    }
    let medians: Vec<f64> = (samples.iter())
        .map(|samples| median(samples).unwrap_or(0.0))
        .collect();
    let mut calibration = Calibration {
        buffer_bytes,
        rounds,
        measured_s: begun.elapsed().as_secs_f64(),
        memories: bench.memories(),
        streams: bench.streams(&counts, &cells, &medians),
        latencies: bench.latencies(&cells, &medians),
        caches: bench.cache_figures(&cells, &medians),
        pairs: bench.pairs(&pairs, &both),
        warnings,
    };
    calibration.warnings.extend(bench.warnings());
    calibration
        .warnings
        .extend(calibration.unexplained(machine));
    Ok(calibration)
}

impl Bench<'_> {
    fn memories(&self) -> Vec<MeasuredMemory> {
        let memory = |target: &Target| MeasuredMemory {
            node: self.machine.nodes[target.node].id,
            kind: target.kind,
            path: target.path.clone(),
            is_direct: target.is_direct,
            bytes: target.bytes,
        };
        self.targets.iter().map(memory).collect()
    }

    fn id(&self, from: usize) -> NodeId {
        self.machine.nodes[self.from[from].index].id
    }

    fn streams(&self, counts: &[Vec<usize>], cells: &[Cell], medians: &[f64]) -> Vec<Stream> {
        let mut streams = Vec::new();
        for (from, counts) in counts.iter().enumerate() {
            for target in 0..self.targets.len() {
                for &threads in counts {
                    let of = |operation| {
                        let cell = Cell::Stream {
                            from,
                            target,
                            threads,
                            operation,
                        };
                        found(cells, medians, cell)
                    };
                    let [read, write, nontemporal, mixed] = OPERATIONS.map(of);
                    streams.push(Stream {
                        cpu_node: self.id(from),
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

    fn pairs(&self, pairs: &[[FlowCell; 2]], both: &[[Vec<f64>; 2]]) -> Vec<Pair> {
        let flow = |cell: FlowCell| NodeFlow {
            cpu_node: self.id(cell.from),
            memory: cell.target,
            threads: cell.threads as u32,
        };
        let pair = |(cells, rates): (&[FlowCell; 2], &[Vec<f64>; 2])| Pair {
            flows: cells.map(flow),
            read_bytes_s: [0, 1].map(|at| median(&rates[at]).unwrap_or(0.0)),
        };
        pairs.iter().zip(both).map(pair).collect()
    }

    fn latencies(&self, cells: &[Cell], medians: &[f64]) -> Vec<Latency> {
        let pairs = (0..self.from.len())
            .flat_map(|from| (0..self.targets.len()).map(move |target| (from, target)));
        pairs
            .map(|(from, target)| Latency {
                cpu_node: self.id(from),
                memory: target,
                read_ns: found(cells, medians, Cell::ReadLatency { from, target }),
                write_ns: found(cells, medians, Cell::WriteLatency { from, target }),
            })
            .collect()
    }

    fn cache_figures(&self, cells: &[Cell], medians: &[f64]) -> Vec<CacheFigures> {
        let known = (0..self.from.len()).filter(|&from| self.caches[from].is_known);
        known
            .map(|from| CacheFigures {
                node: self.id(from),
                bytes: self.caches[from].bytes,
                latency_ns: found(cells, medians, Cell::CacheLatency { from }),
                read_bytes_s: found(cells, medians, Cell::CacheRead { from }),
            })
            .collect()
    }
}

fn found(cells: &[Cell], medians: &[f64], wanted: Cell) -> f64 {
    let position = cells.iter().position(|cell| *cell == wanted);
    position.map_or(0.0, |position| medians[position])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With its position as the median of each cell, every position is told once.
    #[test]
    fn every_median_is_told_where_it_belongs() {
        let machine = Machine::detect().unwrap();
        let options = Options::default();
        let (bench, ..) = Bench::set_up(Path::new("/"), &machine, &options, &|| false).unwrap();
        let counts: Vec<Vec<usize>> = bench.from.iter().map(CpuNode::thread_counts).collect();
        let cells = schedule::cells(&counts, bench.targets.len());
        let medians: Vec<f64> = (0..cells.len()).map(|position| position as f64).collect();
        let of_stream = |stream: Stream| {
            [
                stream.read_bytes_s,
                stream.write_bytes_s,
                stream.nontemporal_write_bytes_s,
                stream.mixed_bytes_s,
            ]
        };
        let streams = bench.streams(&counts, &cells, &medians);
        let mut told: Vec<f64> = streams.into_iter().flat_map(of_stream).collect();
        let latencies = bench.latencies(&cells, &medians).into_iter();
        told.extend(latencies.flat_map(|latency| [latency.read_ns, latency.write_ns]));
        let caches = bench.cache_figures(&cells, &medians).into_iter();
        told.extend(caches.flat_map(|cache| [cache.latency_ns, cache.read_bytes_s]));
        told.sort_by(f64::total_cmp);
        let known = bench.caches.iter().filter(|cache| cache.is_known).count();
        assert_eq!(told.len(), cells.len() - 2 * (bench.caches.len() - known));
        assert!(told.windows(2).all(|pair| pair[0] < pair[1]), "{told:?}");
    }
}
