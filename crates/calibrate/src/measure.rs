//! Getting the memory, taking every figure in every round, and the medians of them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use egeria_machine::{CpuId, Machine, MemoryKind, NodeId};

use crate::caches::{self, NodeCache};
use crate::figures::{CacheFigures, Calibration, Latency, MeasuredMemory, Stream, median};
use crate::kernels::{self, Line, Random};
use crate::mapping::Mapping;
use crate::sample::{loads, stores, stream};
use crate::schedule::{self, Budget, Cell, OPERATIONS, Operation};
use crate::target::{CpuNode, OpenPool, PoolRequest, Target, of_map_fault};
use crate::threads::{allowed_cpus, together};
use crate::{CalibrateError, LINE_BYTES, room};

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct Options {
    /// Time for all figures together, s. When it is too short for that many, the shortest measurable times count.
    pub seconds: f64,
    /// How often each figure is taken, at least once.
    pub rounds: u32,
    /// Bytes of each memory that streams go through; several times the largest cache when none.
    pub buffer_bytes: Option<u64>,
    /// Persistent memory.
    pub pools: Vec<PoolRequest>,
    /// Whether pools that are devices may be overwritten.
    pub may_overwrite_devices: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            seconds: 30.0,
            rounds: 5,
            buffer_bytes: None,
            pools: Vec::new(),
            may_overwrite_devices: false,
        }
    }
}

/// Buffers are whole pages of the largest kind that file systems map.
const PAGE_BYTES: u64 = 2 << 20;
/// A stream buffer is at least so many times the cache.
const LEAST_CACHES: u64 = 2;
const USUAL_CACHES: u64 = 4;
const USUAL_LEAST_BYTES: u64 = 64 << 20;
/// Larger ones take long to get; two caches are always taken.
const USUAL_MOST_BYTES: u64 = 1 << 30;

/// Others may have the CPUs for this share of the time before it is told.
const MOST_LOST: f64 = 0.05;

/// Everything that is measured with.
struct Bench<'a> {
    machine: &'a Machine,
    from: Vec<CpuNode>,
    caches: Vec<NodeCache>,
    targets: Vec<Target>,
    /// Half of a cache part of each node with CPUs, as a chain.
    cached: Vec<Mapping>,
    random: Random,
    /// What threads had of their CPUs so far, and their whole time, s.
    cpu_s: f64,
    wall_s: f64,
}

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
    let (mut bench, mut warnings, buffer_bytes) =
        Bench::set_up(root, machine, options, &is_stopped)?;
    let counts: Vec<Vec<usize>> = bench.from.iter().map(CpuNode::thread_counts).collect();
    let cells = schedule::cells(&counts, bench.targets.len());
    let rounds = options.rounds.max(1);
    let steps = cells.len() as u64 * u64::from(rounds);
    let mut budget = Budget::new(options.seconds, steps);
    let mut samples = vec![Vec::with_capacity(rounds as usize); cells.len()];
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
    }
    let medians: Vec<f64> = samples.iter().map(|samples| median(samples)).collect();
    warnings.extend(bench.warnings());
    Ok(Calibration {
        buffer_bytes,
        rounds,
        measured_s: begun.elapsed().as_secs_f64(),
        memories: bench.memories(),
        streams: bench.streams(&counts, &cells, &medians),
        latencies: bench.latencies(&cells, &medians),
        caches: bench.cache_figures(&cells, &medians),
        warnings,
    })
}

/// Nodes with CPUs that may be used, and a line for each that may not.
fn usable_nodes(
    root: &Path,
    machine: &Machine,
) -> Result<(Vec<CpuNode>, Vec<String>), CalibrateError> {
    let allowed = allowed_cpus().map_err(|_| CalibrateError::NoCpus)?;
    let (mut nodes, mut warnings) = (Vec::new(), Vec::new());
    for (index, node) in machine.nodes.iter().enumerate() {
        let is_allowed = |cpu: &CpuId| allowed.binary_search(cpu).is_ok();
        let cpus: Vec<CpuId> = node.cpus.iter().copied().filter(is_allowed).collect();
        if cpus.len() < node.cpus.len() {
            let (id, of, all) = (node.id.0, cpus.len(), node.cpus.len());
            let mend = "run it with a wider CPU affinity to measure all";
            warnings.push(format!(
                "only {of} of the {all} CPUs of node {id} may be used; {mend}"
            ));
        }
        if !cpus.is_empty() {
            let cpus = caches::cores_first(root, &cpus);
            nodes.push(CpuNode { index, cpus });
        }
    }
    match nodes.is_empty() {
        true => Err(CalibrateError::NoCpus),
        false => Ok((nodes, warnings)),
    }
}

/// Bytes of each buffer and of each chain.
fn sizes(options: &Options, caches: &[NodeCache]) -> Result<(u64, u64), CalibrateError> {
    let cache_bytes = caches.iter().map(|cache| cache.bytes).max().unwrap_or(0);
    let part_bytes = caches
        .iter()
        .map(|cache| cache.part_bytes)
        .max()
        .unwrap_or(0);
    let least = LEAST_CACHES * cache_bytes;
    let usual = (USUAL_CACHES * cache_bytes).clamp(USUAL_LEAST_BYTES, USUAL_MOST_BYTES);
    let bytes = options.buffer_bytes.unwrap_or(usual.max(least));
    if bytes < least {
        return Err(CalibrateError::SmallBuffer {
            bytes,
            cache_bytes,
            least,
        });
    }
    let bytes = bytes
        .clamp(PAGE_BYTES, 1 << 50)
        .next_multiple_of(PAGE_BYTES);
    // One CPU sees one part of the cache only.
    let chain_bytes = (bytes / 2).max(bytes.min(USUAL_CACHES * part_bytes));
    Ok((bytes, chain_bytes.next_multiple_of(PAGE_BYTES)))
}

impl<'a> Bench<'a> {
    fn set_up(
        root: &Path,
        machine: &'a Machine,
        options: &Options,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(Bench<'a>, Vec<String>, u64), CalibrateError> {
        let (from, warnings) = usable_nodes(root, machine)?;
        let cache_of = |node: &CpuNode| caches::of_node(root, &machine.nodes[node.index]);
        let caches: Vec<NodeCache> = from.iter().map(cache_of).collect();
        let (buffer_bytes, chain_bytes) = sizes(options, &caches)?;
        let with_memory: Vec<usize> = (0..machine.nodes.len())
            .filter(|&index| machine.nodes[index].memory_bytes > 0)
            .collect();
        let needed = buffer_bytes + chain_bytes;
        let needs = with_memory
            .iter()
            .map(|&index| (machine.nodes[index].id, needed));
        room::check(root, &needs.collect::<Vec<_>>())?;
        let mut bench = Bench {
            machine,
            from,
            caches,
            targets: Vec::new(),
            cached: Vec::new(),
            random: Random(0x5eed),
            cpu_s: 0.0,
            wall_s: 0.0,
        };
        let buffer_lines = buffer_bytes as usize / LINE_BYTES;
        for request in &options.pools {
            let target = pool(machine, request, options, needed, buffer_lines, is_stopped)?;
            bench.targets.push(target);
        }
        for index in with_memory {
            let target = own_memory(machine, index, needed, buffer_lines, is_stopped)?;
            bench.targets.push(target);
        }
        bench.targets.sort_by_key(|target| target.node);
        bench.link_chains(is_stopped)?;
        Ok((bench, warnings, buffer_bytes))
    }

    fn link_chains(&mut self, is_stopped: &dyn Fn() -> bool) -> Result<(), CalibrateError> {
        for target in &mut self.targets {
            if is_stopped() {
                return Err(CalibrateError::Stopped);
            }
            kernels::link_at_random(target.chain().0, 1);
        }
        for (node, cache) in self.from.iter().zip(&self.caches) {
            let node = &self.machine.nodes[node.index];
            let bytes = (cache.part_bytes / 2)
                .max(LINE_BYTES as u64)
                .next_multiple_of(4096);
            // A node without memory has its cache all the same.
            let home = (self.machine.nodes.len() > 1 && node.memory_bytes > 0).then_some(node.id);
            let place = format!("node {}", node.id.0);
            let mut mapping = Mapping::anonymous(bytes as usize, home, is_stopped)
                .map_err(|fault| of_map_fault(fault, place, bytes, home))?;
            kernels::link_at_random(mapping.lines(), 1);
            self.cached.push(mapping);
        }
        Ok(())
    }

    /// One sample of a figure.
    fn take(&mut self, cell: Cell, time: Duration) -> Result<f64, CalibrateError> {
        let random = &mut self.random;
        let sample = match cell {
            Cell::Stream {
                from,
                target,
                threads,
                operation,
            } => {
                let cpus = &self.from[from].cpus[..threads];
                let buffer = self.targets[target].buffer();
                stream(cpus, buffer, operation, random, time)
            }
            Cell::ReadLatency { from, target } => {
                let (chain, at) = self.targets[target].chain();
                loads(self.from[from].cpus[0], chain, at, time)
            }
            Cell::WriteLatency { from, target } => {
                let buffer = self.targets[target].buffer();
                stores(self.from[from].cpus[0], buffer, random, time)
            }
            Cell::CacheLatency { from } => {
                let (cpu, chain) = (self.from[from].cpus[0], self.cached[from].lines());
                fetch(cpu, chain)?;
                loads(cpu, chain, &mut 0, time)
            }
            Cell::CacheRead { from } => {
                let (cpu, lines) = (self.from[from].cpus[0], self.cached[from].lines());
                fetch(cpu, lines)?;
                stream(&[cpu], lines, Operation::Read, random, time)
            }
        }?;
        let (cpu_s, wall_s) = sample.times_s();
        self.cpu_s += cpu_s;
        self.wall_s += wall_s;
        Ok(match cell {
            Cell::Stream { .. } | Cell::CacheRead { .. } => sample.per_second(),
            _ => sample.each_ns(),
        })
    }

    fn warnings(&self) -> Vec<String> {
        let indirect = self.targets.iter().filter(|target| !target.is_direct);
        let paths = indirect.filter_map(|target| target.path.as_ref());
        let line = |path: &PathBuf| {
            format!(
                "{} is not on DAX: what was measured is the page cache, DRAM",
                path.display()
            )
        };
        let of_pools = paths.map(line);
        let unknown = self.from.iter().zip(&self.caches);
        let unknown = unknown.filter(|(_, cache)| !cache.is_known).map(|(node, _)| {
            let id = self.machine.nodes[node.index].id.0;
            format!("the kernel does not say how large the caches of node {id} are: none is described")
        });
        let mut lines: Vec<String> = of_pools.chain(unknown).collect();
        let lost = 1.0 - self.cpu_s / self.wall_s.max(1e-9);
        if lost > MOST_LOST {
            lines.push(format!(
                "other programs had the CPUs for {:.0} % of the time, and used memory meanwhile",
                100.0 * lost
            ));
        }
        lines
    }

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

/// Brings lines into the cache of a CPU.
fn fetch(cpu: CpuId, lines: &[Line]) -> Result<(), CalibrateError> {
    together(vec![(cpu, || kernels::read(lines))]).map(drop)
}

fn found(cells: &[Cell], medians: &[f64], wanted: Cell) -> f64 {
    let position = cells.iter().position(|cell| *cell == wanted);
    position.map_or(0.0, |position| medians[position])
}

fn own_memory(
    machine: &Machine,
    index: usize,
    bytes: u64,
    buffer_lines: usize,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Target, CalibrateError> {
    let node = &machine.nodes[index];
    let home = (machine.nodes.len() > 1).then_some(node.id);
    let place = format!("node {}", node.id.0);
    let memory = Mapping::anonymous(bytes as usize, home, is_stopped)
        .map_err(|fault| of_map_fault(fault, place, bytes, home))?;
    Ok(Target {
        node: index,
        kind: match node.cpus.is_empty() {
            true => MemoryKind::Expander,
            false => MemoryKind::Dram,
        },
        path: None,
        is_direct: true,
        bytes: node.memory_bytes,
        memory,
        buffer_lines,
        at: 0,
    })
}

fn pool(
    machine: &Machine,
    request: &PoolRequest,
    options: &Options,
    bytes: u64,
    buffer_lines: usize,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Target, CalibrateError> {
    let path = &request.path;
    let node = machine
        .index_of(request.node)
        .ok_or_else(|| CalibrateError::Pool {
            path: path.clone(),
            problem: format!("this machine has no node {}", request.node.0),
            mend: "see `egeria machine` for its nodes",
        })?;
    let open = OpenPool::open(path, bytes, options.may_overwrite_devices)?;
    let (memory, is_direct) = open.map(path, bytes as usize, is_stopped)?;
    Ok(Target {
        node,
        kind: MemoryKind::Persistent,
        path: Some(path.clone()),
        is_direct,
        bytes: open.bytes(),
        memory,
        buffer_lines,
        at: 0,
    })
}
