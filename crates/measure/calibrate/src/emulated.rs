//! An emulated machine, measured as a real one: what its memories, links and queues make of accesses, by its own clock.
//!
//! How slow that clock is changes no figure. Each is taken where the host has time enough for every access.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use egeria_machine::costs::{Access, AccessCosts, Beside, Pattern};
use egeria_machine::curves::thread_counts;
use egeria_machine::emulated::MAX_DILATION;
use egeria_machine::{AccessKind, Machine, MemoryKind};
use egeria_media::emulation::{Carried, Emulation, Flow};

use crate::figures::MeasuredMemory;
use crate::meter::{CpuSubject, Meter, Subject};
use crate::schedule::{Cell, FlowCell, Operation, Together};
use crate::{CalibrateError, STREAM_BYTES, WORD_BYTES};

/// Bytes of an access of a stream while loads wait beside.
const WAIT_BYTES: u64 = 4 << 10;
/// Shortest time on the host in which something is measured.
const SHORTEST: Duration = Duration::from_millis(4);
/// Host time in which one access is charged and slept out, of all threads together, ns.
const ACCESS_HOST_NS: f64 = 10_000.0;
/// A sample that others disturbed is taken again so often, while all take no longer than so many times the time for them.
const TRIES: u32 = 4;
const MAX_LONGER: f64 = 1.2;
/// More samples than this share may not have been disturbed to the last.
const MAX_DISTURBED: f64 = 0.01;
/// Accesses that may take longer than this beside others are too slow to be measured, machine ns.
const MAX_ACCESS_NS: f64 = 1e8;
/// No access may take longer than this on the host, ns.
const MAX_ACCESS_HOST_NS: f64 = 2e8;

/// The emulated machine, by the positions of its nodes and memories.
pub(crate) struct EmulatedBench<'a> {
    stop: &'a AtomicBool,
    machine: Machine,
    costs: AccessCosts,
    /// By how many times slower it is than the machine.
    emulations: BTreeMap<u32, Emulation>,
    /// Of nodes with cores.
    homes: Vec<usize>,
    /// Time for all samples so far, and what they took.
    asked: Duration,
    spent: Duration,
    /// Samples, and those of them that others disturbed.
    taken: u64,
    disturbed: u64,
}

impl<'a> EmulatedBench<'a> {
    /// Emulates it for this process alone.
    ///
    /// # Errors
    /// When the machine cannot be emulated, or would take too long.
    pub(crate) fn set_up(
        machine: &Machine,
        stop: &'a AtomicBool,
    ) -> Result<(EmulatedBench<'a>, Subject), CalibrateError> {
        let name = || machine.name.clone();
        if machine
            .emulated
            .as_ref()
            .is_none_or(|emulated| !emulated.timing)
        {
            return Err(CalibrateError::Untimed { name: name() });
        }
        let costs = AccessCosts::of(machine);
        let homes = 0..machine.nodes.len();
        let homes: Vec<usize> = homes.filter(|&node| costs.cores[node] > 0).collect();
        let subject = subject(machine, &costs, &homes);
        if subject.cpus.is_empty() || subject.memories.is_empty() {
            return Err(CalibrateError::NoCpus);
        }
        for home in &homes {
            for place in 0..costs.places.len() {
                if longest_ns(&costs, *home, place) > MAX_ACCESS_NS {
                    return Err(CalibrateError::Slow {
                        name: name(),
                        node: machine.nodes[costs.places[place].node].id,
                        from: machine.nodes[*home].id,
                    });
                }
            }
        }
        let mut bench = EmulatedBench {
            stop,
            machine: machine.clone(),
            costs,
            emulations: BTreeMap::new(),
            homes,
            asked: Duration::ZERO,
            spent: Duration::ZERO,
            taken: 0,
            disturbed: 0,
        };
        // What cannot be emulated is refused now.
        bench.emulation(1)?;
        Ok((bench, subject))
    }

    fn emulation(&mut self, dilation: u32) -> Result<&Emulation, CalibrateError> {
        match self.emulations.entry(dilation) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let mut machine = self.machine.clone();
                if let Some(emulated) = &mut machine.emulated {
                    emulated.dilation = f64::from(dilation);
                }
                let emulation = Emulation::private(&machine)?;
                emulation.set_timing(true);
                Ok(entry.insert(emulation))
            }
        }
    }

    fn run(&mut self, flows: &[Flow], time: Duration) -> Result<Vec<f64>, CalibrateError> {
        let accesses_ns: f64 = flows.iter().map(|flow| self.accesses_ns(flow)).sum();
        let slowest_ns = flows
            .iter()
            .map(|flow| longest_ns(&self.costs, flow.home, flow.place));
        let most = MAX_ACCESS_HOST_NS / slowest_ns.fold(1.0, f64::max);
        let dilation = (ACCESS_HOST_NS * accesses_ns)
            .min(most)
            .clamp(1.0, MAX_DILATION);
        let dilation = (dilation.ceil() as u32).next_power_of_two();
        self.taken += 1;
        self.asked += time;
        let left = self.asked.mul_f64(MAX_LONGER).saturating_sub(self.spent);
        let (begun, stop) = (Instant::now(), self.stop);
        let emulation = self.emulation(dilation)?;
        let mut carried = run_flows(emulation, flows, time, stop)?;
        for _ in 0..TRIES {
            let is_late = begun.elapsed() >= left;
            if !carried.is_disturbed || is_late || stop.load(Ordering::Relaxed) {
                break;
            }
            carried = run_flows(emulation, flows, time, stop)?;
        }
        self.spent += begun.elapsed();
        self.disturbed += u64::from(carried.is_disturbed);
        Ok(carried.bytes_s)
    }

    /// Accesses that a flow makes at most, per machine ns.
    fn accesses_ns(&self, flow: &Flow) -> f64 {
        if flow.is_cached {
            return f64::from(flow.threads) / self.costs.cached_ns(flow.home, flow.bytes).max(1.0);
        }
        let access = Access {
            kind: flow.kinds[0],
            home: flow.home,
            place: flow.place,
            bytes: flow.bytes,
            pattern: flow.pattern,
            at_once: flow.at_once,
        };
        let accessors = f64::from(flow.threads);
        let beside = Beside {
            accessors,
            ..Beside::ALONE
        };
        let alone_ns = self.costs.access_ns(&access, accessors, 0.0);
        let service_ns = self.costs.service_ns(&access, beside);
        (accessors / alone_ns.max(1e-3)).min(1.0 / service_ns.max(1e-3))
    }

    fn one(&mut self, flow: Flow, time: Duration) -> Result<f64, CalibrateError> {
        let rates = self.run(&[flow], time)?;
        Ok(rates.first().copied().unwrap_or(0.0))
    }

    fn stream(&self, from: usize, place: usize, threads: usize, operation: Operation) -> Flow {
        Flow {
            home: self.homes[from],
            place,
            threads: threads as u32,
            bytes: STREAM_BYTES,
            pattern: Pattern::Sequential,
            kinds: kinds(operation),
            at_once: true,
            is_cached: false,
        }
    }

    /// One access after the other.
    fn latency(&self, from: usize, place: usize, kind: AccessKind, is_cached: bool) -> Flow {
        Flow {
            home: self.homes[from],
            place,
            threads: 1,
            bytes: WORD_BYTES,
            pattern: Pattern::Random,
            kinds: [kind; 2],
            at_once: false,
            is_cached,
        }
    }
}

fn run_flows(
    emulation: &Emulation,
    flows: &[Flow],
    time: Duration,
    stop: &AtomicBool,
) -> Result<Carried, CalibrateError> {
    let carried = emulation.run_flows(flows, time, stop);
    carried.map_err(|cause| CalibrateError::Threads { cause })
}

/// The longest that an access of a memory takes while all cores of a node are at it, machine ns.
fn longest_ns(costs: &AccessCosts, home: usize, place: usize) -> f64 {
    let threads = f64::from(costs.cores[home]);
    let node = costs.places[place].node;
    let mut longest_ns = costs.cached_ns(home, STREAM_BYTES);
    for kind in [AccessKind::Read, AccessKind::Write] {
        for written_share in [0.0, 0.5, 1.0] {
            for pattern in [Pattern::Random, Pattern::Sequential] {
                let access = Access {
                    kind,
                    home,
                    place,
                    bytes: STREAM_BYTES,
                    pattern,
                    at_once: false,
                };
                let beside = Beside {
                    accessors: threads,
                    written_share,
                    shared_reads: false,
                };
                let access_ns = costs.access_ns(&access, threads, 0.0);
                let service_ns = costs.service_ns(&access, beside);
                longest_ns = longest_ns.max(access_ns).max(threads * service_ns);
            }
        }
    }
    let (there, back) = (
        costs.lanes_of(AccessKind::Read, home, node),
        costs.lanes_of(AccessKind::Write, home, node),
    );
    let lanes = there.chain(back).map(|lane| costs.lanes()[lane].bytes_s);
    let narrowest_bytes_s = lanes.fold(f64::INFINITY, f64::min);
    longest_ns.max(threads * STREAM_BYTES as f64 / narrowest_bytes_s * 1e9)
}

/// What there is to measure.
fn subject(machine: &Machine, costs: &AccessCosts, homes: &[usize]) -> Subject {
    let cpus = homes.iter().map(|&home| CpuSubject {
        node: machine.nodes[home].id,
        thread_counts: thread_counts(costs.cores[home] as usize),
        cores: costs.cores[home] as usize,
        apart: (costs.cores[home] as usize).saturating_sub(1),
        cache_bytes: costs.caches[home].as_ref().map(|cache| cache.bytes),
    });
    let memories = costs.places.iter().map(|place| MeasuredMemory {
        node: machine.nodes[place.node].id,
        kind: place.memory.kind,
        path: None,
        is_direct: true,
        bytes: place.memory.bytes,
        modules: None,
    });
    let own = |place: usize| {
        let node = costs.places[place].node;
        let usual = costs.place_of_kind(node, MemoryKind::Dram);
        let first = costs.places.iter().position(|other| other.node == node);
        let home = homes.iter().position(|&home| home == node);
        home.filter(|_| usual.or(first) == Some(place))
    };
    Subject {
        cpus: cpus.collect(),
        memories: memories.collect(),
        homes: (0..costs.places.len()).map(own).collect(),
    }
}

/// What threads do in turn. Emulated stores all go past the caches.
fn kinds(operation: Operation) -> [AccessKind; 2] {
    match operation {
        Operation::Read => [AccessKind::Read; 2],
        Operation::Write | Operation::WriteNontemporal => [AccessKind::Write; 2],
        Operation::CopyNontemporal => [AccessKind::Read, AccessKind::Write],
    }
}

fn each_ns(bytes_s: f64) -> f64 {
    WORD_BYTES as f64 / bytes_s.max(1e-9) * 1e9
}

impl Meter for EmulatedBench<'_> {
    fn take(&mut self, cell: Cell, time: Duration) -> Result<f64, CalibrateError> {
        if let Cell::CacheLatency { from } | Cell::CacheRead { from } = cell
            && self.costs.caches[self.homes[from]].is_none()
        {
            return Ok(0.0);
        }
        let flow = match cell {
            Cell::Stream {
                from,
                target,
                threads,
                operation,
            } => self.stream(from, target, threads, operation),
            Cell::ReadLatency { from, target } => {
                self.latency(from, target, AccessKind::Read, false)
            }
            Cell::WriteLatency { from, target } => {
                self.latency(from, target, AccessKind::Write, false)
            }
            // The cache is of the threads' node, whatever memory it holds.
            Cell::CacheLatency { from } => self.latency(from, 0, AccessKind::Read, true),
            Cell::CacheRead { from } => Flow {
                is_cached: true,
                ..self.stream(from, 0, 1, Operation::Read)
            },
            Cell::Small {
                from,
                target,
                threads,
                bytes,
                operation,
            } => Flow {
                bytes: bytes as u64,
                pattern: Pattern::Random,
                ..self.stream(from, target, threads, operation)
            },
        };
        let bytes_s = self.one(flow, time)?;
        Ok(match cell {
            Cell::Stream { .. } | Cell::CacheRead { .. } | Cell::Small { .. } => bytes_s,
            _ => each_ns(bytes_s),
        })
    }

    fn take_together(
        &mut self,
        cell: Together,
        time: Duration,
    ) -> Result<[f64; 2], CalibrateError> {
        let flows = match cell {
            Together::Flows(flows) => flows.map(|flow: FlowCell| {
                self.stream(flow.from, flow.target, flow.threads, Operation::Read)
            }),
            Together::Wait(cell) => [
                self.latency(cell.from, cell.target, AccessKind::Read, false),
                // Small ones, so that as many come by as loads wait.
                Flow {
                    bytes: WAIT_BYTES,
                    ..self.stream(cell.from, cell.beside, cell.threads, cell.operation)
                },
            ],
        };
        let rates = self.run(&flows, time)?;
        let [one, other] = [0, 1].map(|at| rates.get(at).copied().unwrap_or(0.0));
        Ok(match cell {
            Together::Flows(_) => [one, other],
            Together::Wait(_) => [each_ns(one), other],
        })
    }

    fn shortest(&self) -> Duration {
        SHORTEST
    }

    fn warnings(&self) -> Vec<String> {
        let share = self.disturbed as f64 / self.taken.max(1) as f64;
        let warning = || {
            format!(
                "other programs had the CPUs in {:.0} % of the samples: repeat it while less runs here",
                100.0 * share
            )
        };
        (share > MAX_DISTURBED).then(warning).into_iter().collect()
    }
}
