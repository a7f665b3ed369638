//! What is measured with: memory, CPUs, and how one sample is taken.

use std::path::{Path, PathBuf};
use std::time::Duration;

use egeria_machine::curves::thread_counts;
use egeria_machine::{CpuId, Machine};
use egeria_stats::rng::Rng;

use crate::figures::MeasuredMemory;
use crate::hardware::kernels::{self, Line};
use crate::hardware::mapping::Mapping;
use crate::hardware::sample::{Sample, loads, loads_beside, small, stores, stream, two_streams};
use crate::hardware::setup::{Sizes, own_memory, pool, sizes, usable_nodes};
use crate::hardware::target::{Target, of_map_fault};
use crate::hardware::threads::together;
use crate::host::caches::{self, NodeCache};
use crate::host::cores::{self, CpuNode};
use crate::host::modules::Modules;
use crate::host::room;
use crate::meter::{CpuSubject, Meter, Subject};
use crate::schedule::{Cell, FlowCell, Operation, Together, WaitCell};
use crate::{CalibrateError, LINE_BYTES, Options};

/// Shortest time in which something is measured.
const SHORTEST: Duration = Duration::from_micros(200);
/// Others may have the CPUs for this share of the time before it is told.
const MAX_LOST: f64 = 0.05;

/// Everything that is measured with.
pub(crate) struct Bench<'a> {
    pub(crate) machine: &'a Machine,
    /// Nodes with CPUs that may be used.
    pub(crate) from: Vec<CpuNode>,
    /// Of each of `from`.
    pub(crate) caches: Vec<NodeCache>,
    pub(crate) targets: Vec<Target>,
    /// Half of a cache part of each node with CPUs, as a chain.
    cached: Vec<Mapping>,
    rng: Rng,
    /// What threads had of their CPUs so far, and their whole time, s.
    cpu_s: f64,
    wall_s: f64,
}

impl<'a> Bench<'a> {
    /// Gets all the memory there is to measure.
    pub(crate) fn set_up(
        root: &Path,
        machine: &'a Machine,
        options: &Options,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(Bench<'a>, Vec<String>, u64), CalibrateError> {
        let (from, mut warnings) = usable_nodes(root, machine)?;
        let cache_of = |node: &CpuNode| caches::of_node(root, &machine.nodes[node.index]);
        let caches: Vec<NodeCache> = from.iter().map(cache_of).collect();
        let Sizes {
            buffer_bytes,
            chain_bytes,
            warning,
        } = sizes(options, &caches)?;
        warnings.extend(warning);
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
            rng: Rng::new(0x5eed),
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
            if !kernels::link_at_random(target.chain().0, 1, is_stopped) {
                return Err(CalibrateError::Stopped);
            }
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
            if !kernels::link_at_random(mapping.lines(), 1, is_stopped) {
                return Err(CalibrateError::Stopped);
            }
            self.cached.push(mapping);
        }
        Ok(())
    }

    /// One sample of a figure.
    fn sample(&mut self, cell: Cell, time: Duration) -> Result<Sample, CalibrateError> {
        let rng = &mut self.rng;
        match cell {
            Cell::Stream {
                from,
                target,
                threads,
                operation,
            } => {
                let cpus = &self.from[from].cpus[..threads];
                let buffer = self.targets[target].buffer();
                stream(cpus, buffer, operation, rng, time)
            }
            Cell::ReadLatency { from, target } => {
                let (chain, at) = self.targets[target].chain();
                loads(self.from[from].cpus[0], chain, at, time)
            }
            Cell::WriteLatency { from, target } => {
                let buffer = self.targets[target].buffer();
                stores(self.from[from].cpus[0], buffer, rng, time)
            }
            Cell::CacheLatency { from } => {
                let (cpu, chain) = (self.from[from].cpus[0], self.cached[from].lines());
                fetch(cpu, chain)?;
                loads(cpu, chain, &mut 0, time)
            }
            Cell::CacheRead { from } => {
                let (cpu, lines) = (self.from[from].cpus[0], self.cached[from].lines());
                fetch(cpu, lines)?;
                stream(&[cpu], lines, Operation::Read, rng, time)
            }
            Cell::Small {
                from,
                target,
                threads,
                bytes,
                operation,
            } => {
                let cpus = &self.from[from].cpus[..threads];
                let buffer = self.targets[target].buffer();
                small(cpus, buffer, (bytes, operation), rng, time)
            }
        }
    }

    /// One sample of two flows at once.
    fn sample_flows(
        &mut self,
        [one, other]: [FlowCell; 2],
        time: Duration,
    ) -> Result<[Sample; 2], CalibrateError> {
        let [first, second] = cores::cpus_of(&self.from, [one, other]);
        let (first_lines, second_lines) =
            match self.targets.get_disjoint_mut([one.target, other.target]) {
                Ok([first, second]) => (first.buffer(), second.buffer()),
                Err(_) => {
                    let lines = self.targets[one.target].buffer();
                    let half = lines.len() / 2;
                    lines.split_at_mut(half)
                }
            };
        let flows = [(first, first_lines), (second, second_lines)];
        two_streams(flows, &mut self.rng, time)
    }

    /// One sample of loads by the first CPU of a node, and of what those of other cores do to another memory.
    fn sample_wait(
        &mut self,
        cell: WaitCell,
        time: Duration,
    ) -> Result<[Sample; 2], CalibrateError> {
        let Ok([target, beside]) = self.targets.get_disjoint_mut([cell.target, cell.beside]) else {
            unreachable!("a load waits for those at another memory");
        };
        let node = &self.from[cell.from];
        let (chain, at) = target.chain();
        let others = &node.apart[..cell.threads];
        let others = (others, beside.buffer(), cell.operation);
        loads_beside(node.cpus[0], (chain, at), others, &mut self.rng, time)
    }

    fn count(&mut self, sample: &Sample) {
        let (cpu_s, wall_s) = sample.times_s();
        self.cpu_s += cpu_s;
        self.wall_s += wall_s;
    }

    /// What is measured.
    pub(crate) fn subject(&self, root: &Path) -> Subject {
        let modules = Modules::find(root, self.machine);
        let cpus = self
            .from
            .iter()
            .zip(&self.caches)
            .map(|(node, cache)| CpuSubject {
                node: self.machine.nodes[node.index].id,
                thread_counts: thread_counts(node.cpus.len()),
                cores: node.cores,
                apart: node.apart.len(),
                cache_bytes: cache.is_known.then_some(cache.bytes),
            });
        let memory = |target: &Target| {
            let mut memory = MeasuredMemory {
                node: self.machine.nodes[target.node].id,
                kind: target.kind,
                path: target.path.clone().map(Into::into),
                is_direct: target.is_direct,
                bytes: target.bytes,
                modules: None,
            };
            memory.modules = modules.of(&memory);
            memory
        };
        Subject {
            cpus: cpus.collect(),
            memories: self.targets.iter().map(memory).collect(),
            homes: self.homes(),
        }
    }

    /// Of each target that is a node's own memory: which of `from` that is.
    fn homes(&self) -> Vec<Option<usize>> {
        let home = |target: &Target| {
            let is_own = target.path.is_none();
            let home = self.from.iter().position(|node| node.index == target.node);
            home.filter(|_| is_own)
        };
        self.targets.iter().map(home).collect()
    }
}

impl Meter for Bench<'_> {
    fn take(&mut self, cell: Cell, time: Duration) -> Result<f64, CalibrateError> {
        let sample = self.sample(cell, time)?;
        self.count(&sample);
        Ok(match cell {
            Cell::Stream { .. } | Cell::CacheRead { .. } | Cell::Small { .. } => {
                sample.per_second()
            }
            _ => sample.each_ns(),
        })
    }

    fn take_together(
        &mut self,
        cell: Together,
        time: Duration,
    ) -> Result<[f64; 2], CalibrateError> {
        let samples = match cell {
            Together::Flows(flows) => self.sample_flows(flows, time)?,
            Together::Wait(cell) => self.sample_wait(cell, time)?,
        };
        samples.iter().for_each(|sample| self.count(sample));
        let [one, other] = &samples;
        Ok(match cell {
            Together::Flows(_) => [one.per_second(), other.per_second()],
            Together::Wait(_) => [one.each_ns(), other.per_second()],
        })
    }

    fn shortest(&self) -> Duration {
        SHORTEST
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
        if lost > MAX_LOST {
            lines.push(format!(
                "other programs had the CPUs for {:.0} % of the time, and used memory meanwhile",
                100.0 * lost
            ));
        }
        lines
    }
}

/// Brings lines into the cache of a CPU.
fn fetch(cpu: CpuId, lines: &[Line]) -> Result<(), CalibrateError> {
    together(vec![(cpu, || kernels::read(lines))]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By a kernel to which all CPUs of a node are one core.
    #[test]
    fn siblings_count_as_cpus_and_not_as_cores() {
        let machine = Machine::detect().unwrap();
        let root = tempfile::tempdir().unwrap();
        for node in &machine.nodes {
            let list: Vec<String> = node.cpus.iter().map(|cpu| cpu.0.to_string()).collect();
            for cpu in &list {
                let directory = format!("sys/devices/system/cpu/cpu{cpu}/topology");
                let directory = root.path().join(directory);
                std::fs::create_dir_all(&directory).unwrap();
                std::fs::write(directory.join("thread_siblings_list"), list.join(",")).unwrap();
            }
        }
        let options = Options::default();
        let (bench, ..) = Bench::set_up(root.path(), &machine, &options, &|| false).unwrap();
        for (node, cpus) in bench.from.iter().zip(bench.subject(root.path()).cpus) {
            assert_eq!((cpus.cores, cpus.apart), (1, 0));
            assert_eq!(cpus.thread_counts, thread_counts(node.cpus.len()));
        }
    }

    /// All threads of a sample run for its time, so their times add up to more with each.
    #[test]
    fn as_many_threads_run_as_the_cell_says() {
        let machine = Machine::detect().unwrap();
        let options = Options::default();
        let (mut bench, ..) = Bench::set_up(Path::new("/"), &machine, &options, &|| false).unwrap();
        let time = Duration::from_millis(2);
        for threads in thread_counts(bench.from[0].cpus.len()) {
            let before_s = bench.wall_s;
            let cell = Cell::Stream {
                from: 0,
                target: 0,
                threads,
                operation: Operation::Read,
            };
            assert!(bench.take(cell, time).unwrap() > 0.0);
            let all_s = bench.wall_s - before_s;
            assert!(
                all_s >= threads as f64 * time.as_secs_f64(),
                "{threads}: {all_s}"
            );
        }
    }
}
