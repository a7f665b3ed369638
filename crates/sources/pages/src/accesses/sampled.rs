//! Accesses as performance events sample them: with the CPU they came from, so that what each node accesses of each
//! memory is known.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use egeria_facts::{MAX_REGIONS, ProcessKey};
use egeria_machine::{CpuId, Machine, NodeId};
use egeria_perf::{Access, AccessEvents, Kind, Served, Taken};
use egeria_proc::task;
use rustix::time::{ClockId, clock_gettime};

use super::physical::PhysicalNodes;
use super::region::{self, REGION_BYTES, Region};
use super::rest;
use super::sampler::{HotPages, Sample, Sampler};
use crate::NodeBytes;
use crate::cpu_time;
use crate::kernel::calls;
use crate::memory::areas;

/// What one access moves.
const LINE_BYTES: u64 = 64;
/// What one page fault brings, at least.
const PAGE_BYTES: u64 = 4096;
/// Pages asked for at once.
const BATCH_PAGES: usize = 8192;
/// Pages that are remembered of a process, as many as AsymSched's kernel module watches.
const MAX_PAGES: usize = 30_000;
const NS_PER_TICK: u64 = 10_000_000;

/// Samples of events, as what processes access.
pub struct Sampled<E> {
    events: E,
    machine: Machine,
    physical: Option<PhysicalNodes>,
    hot: HotSamples,
    resident: HashMap<ProcessKey, NodeBytes>,
    /// Memory of processes that is known is not looked up again before.
    rest_until: Instant,
}

/// The pages that were sampled, by how often. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct HotSamples(Arc<Mutex<HashMap<ProcessKey, HashMap<usize, HotPage>>>>);

/// How often something was sampled, by the node of the thread; few nodes use the same.
type Heat = Vec<(NodeId, u64)>;

/// A page that was sampled, and where it was then.
#[derive(Clone, Debug, Default)]
struct HotPage {
    on: Option<NodeId>,
    heat: Heat,
}

/// What was sampled of one process: by page and node of the thread, how many events, and the page's place in memory.
type Pages = HashMap<(usize, NodeId), (u64, u64)>;

impl<E: AccessEvents> Sampled<E> {
    /// From these events, on this machine.
    pub fn new(events: E, machine: Machine) -> Sampled<E> {
        Sampled {
            events,
            machine,
            physical: PhysicalNodes::read(Path::new("/")),
            hot: HotSamples::default(),
            resident: HashMap::new(),
            rest_until: Instant::now(),
        }
    }

    /// Where the pages that were sampled are noted.
    pub fn hot(&self) -> HotSamples {
        self.hot.clone()
    }

    /// By process, what was sampled; of those that are asked for, and since they began: numbers come again.
    fn by_process(&self, taken: &Taken, processes: &[ProcessKey]) -> HashMap<ProcessKey, Pages> {
        let asleep_ns = now_ns(ClockId::Boottime).saturating_sub(now_ns(ClockId::Monotonic));
        let keys: HashMap<u32, (ProcessKey, u64)> = processes
            .iter()
            .map(|key| {
                let began_ns = key.start_ticks.saturating_mul(NS_PER_TICK);
                (key.process_id, (*key, began_ns.saturating_sub(asleep_ns)))
            })
            .collect();
        let is_hardware = self.events.kind() != Kind::PageFaults;
        let mut found: HashMap<ProcessKey, Pages> = HashMap::new();
        for access in taken.accesses.iter().filter(|access| access.is_access) {
            let Some((key, began_ns)) = keys.get(&access.process_id) else {
                continue;
            };
            let counts = !(is_hardware && access.served == Served::Cache);
            let node = self.node_of_cpu(access);
            if let Some(node) = node.filter(|_| counts && access.time_ns >= *began_ns) {
                let page = access.address & !(PAGE_BYTES - 1);
                let pages = found.entry(*key).or_default();
                let (weight, physical) = pages.entry((page as usize, node)).or_default();
                *weight = weight.saturating_add(access.weight);
                *physical = access.physical;
            }
        }
        found
    }

    fn node_of_cpu(&self, access: &Access) -> Option<NodeId> {
        let cpu = u16::try_from(access.cpu).ok()?;
        self.machine.node_of_cpu(CpuId(cpu))
    }

    /// Where the pages of a process are; `None` when it is gone or may not be asked about.
    fn nodes(&self, process: ProcessKey, pages: &Pages) -> Option<HashMap<usize, NodeId>> {
        let addresses: Vec<usize> = pages.keys().map(|(page, _)| *page).collect();
        let mut nodes = nodes_of(process, &addresses)?;
        // What the kernel does not manage by pages, as DAX, has a place in memory all the same.
        for ((page, _), (_, physical)) in pages {
            let blocks = self.physical.as_ref().filter(|_| *physical != 0);
            if let Some(node) = blocks.and_then(|blocks| blocks.node_of(*physical)) {
                nodes.entry(*page).or_insert(node);
            }
        }
        Some(nodes)
    }

    fn resident(&mut self, process: ProcessKey) -> NodeBytes {
        if let Some(known) = self.resident.get(&process)
            && Instant::now() < self.rest_until
        {
            return known.clone();
        }
        let before = cpu_time::of_thread();
        let mut all = NodeBytes::default();
        for area in areas::of(process.process_id).unwrap_or_default() {
            for (node, bytes) in area.bytes {
                all.add(node, bytes);
            }
        }
        // The time that samples cost is followed by a rest in proportion.
        let looked = cpu_time::of_thread().saturating_sub(before);
        self.rest_until = Instant::now().max(self.rest_until) + rest::after(looked, 0.0);
        self.resident.insert(process, all.clone());
        all
    }

    fn look(
        &mut self,
        process: ProcessKey,
        pages: &Pages,
        (took, factor): (Duration, f64),
    ) -> Option<Sample> {
        let nodes = self.nodes(process, pages)?;
        self.hot.locate(process, &nodes);
        let unit = match self.events.kind() {
            Kind::Loads | Kind::Operations => LINE_BYTES,
            Kind::PageFaults => PAGE_BYTES,
        };
        let mut accessed = NodeBytes::default();
        let mut from: Vec<(NodeId, NodeBytes)> = Vec::new();
        for ((page, thread_node), (weight, _)) in pages {
            let Some(memory) = nodes.get(page) else {
                continue;
            };
            // Casts saturate.
            let bytes = (weight.saturating_mul(unit) as f64 * factor) as u64;
            accessed.add(*memory, bytes);
            match from.iter_mut().find(|(node, _)| node == thread_node) {
                Some((_, all)) => all.add(*memory, bytes),
                None => {
                    let mut all = NodeBytes::default();
                    all.add(*memory, bytes);
                    from.push((*thread_node, all));
                }
            }
        }
        Some(Sample {
            process,
            accessed,
            resident: self.resident(process),
            from,
            unassigned: NodeBytes::default(),
            pages: 0,
            is_tracked: false,
            regions: self.hot.regions(process),
            took,
        })
    }
}

impl<E: AccessEvents> Sampler for Sampled<E> {
    fn sample(&mut self, processes: &[ProcessKey]) -> Vec<Sample> {
        let taken = self.events.take();
        if taken.tally.lost > 0 || taken.tally.damaged > 0 {
            tracing::debug!(
                lost = taken.tally.lost,
                damaged = taken.tally.damaged,
                throttled = taken.tally.throttled,
                "samples of accesses to memory were lost"
            );
        }
        let weight = (taken.took, taken.lost_factor());
        let found = self.by_process(&taken, processes);
        self.resident
            .retain(|process, _| processes.contains(process));
        self.hot.keep(&found, processes);
        let none = Pages::default();
        let samples = processes.iter().filter_map(|process| {
            let pages = found.get(process).unwrap_or(&none);
            self.look(*process, pages, weight)
        });
        samples.collect()
    }
}

impl HotSamples {
    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessKey, HashMap<usize, HotPage>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a window; what was before counts half.
    fn keep(&self, found: &HashMap<ProcessKey, Pages>, processes: &[ProcessKey]) {
        let mut all = self.lock();
        all.retain(|process, _| processes.contains(process));
        for pages in all.values_mut() {
            pages.retain(|_, page| {
                page.heat.iter_mut().for_each(|(_, weight)| *weight /= 2);
                page.heat.retain(|(_, weight)| *weight > 0);
                !page.heat.is_empty()
            });
        }
        for (process, sampled) in found {
            let pages = all.entry(*process).or_default();
            for ((page, node), (weight, _)) in sampled {
                if pages.len() < MAX_PAGES || pages.contains_key(page) {
                    add(&mut pages.entry(*page).or_default().heat, *node, *weight);
                }
            }
        }
    }

    /// Notes where pages are.
    fn locate(&self, process: ProcessKey, nodes: &HashMap<usize, NodeId>) {
        let mut all = self.lock();
        let pages = all.get_mut(&process).into_iter().flatten();
        for (address, page) in pages {
            page.on = nodes.get(address).copied().or(page.on);
        }
    }
}

fn add(heat: &mut Heat, node: NodeId, weight: u64) {
    match heat.iter_mut().find(|(known, _)| *known == node) {
        Some((_, sum)) => *sum = sum.saturating_add(weight),
        None => heat.push((node, weight)),
    }
}

fn weight(heat: &Heat) -> u64 {
    heat.iter()
        .fold(0, |sum: u64, (_, weight)| sum.saturating_add(*weight))
}

/// Pages as parts of 2 MiB: all of a part is taken to be used as those of its pages that were sampled. As each window
/// counts half of the next one, a steady use adds up to twice that of one window.
fn parts(pages: &HashMap<usize, HotPage>) -> Vec<Region> {
    let mut parts: BTreeMap<usize, (NodeBytes, Heat)> = BTreeMap::new();
    for (address, page) in pages {
        let Some(on) = page.on else { continue };
        let part = parts
            .entry(address / REGION_BYTES * REGION_BYTES)
            .or_default();
        part.0.add(on, PAGE_BYTES);
        for (node, weight) in &page.heat {
            add(&mut part.1, *node, weight.saturating_mul(LINE_BYTES) / 2);
        }
    }
    let region = |(start, (sampled, from)): (usize, (NodeBytes, Heat))| Region {
        range: start..start.saturating_add(REGION_BYTES),
        resident: sampled.scaled_to(REGION_BYTES as u64),
        accessed_bytes: weight(&from),
        from,
        // Samples say nothing of policies.
        is_fixed: false,
    };
    region::merged(parts.into_iter().map(region).collect(), MAX_REGIONS)
}

impl HotPages for HotSamples {
    fn hot_pages(
        &mut self,
        process: ProcessKey,
        on: &[NodeId],
        max: usize,
    ) -> Vec<(usize, NodeId)> {
        let pages = self.lock().get(&process).cloned().unwrap_or_default();
        let pages = pages.into_iter();
        let mut pages: Vec<(usize, u64)> =
            pages.map(|(page, hot)| (page, weight(&hot.heat))).collect();
        pages.sort_by_key(|(page, weight)| (std::cmp::Reverse(*weight), *page));
        let addresses: Vec<usize> = pages.iter().map(|(page, _)| *page).collect();
        let nodes = nodes_of(process, &addresses).unwrap_or_default();
        let there = addresses.into_iter().filter_map(|page| {
            let node = *nodes.get(&page)?;
            on.contains(&node).then_some((page, node))
        });
        there.take(max).collect()
    }

    fn regions(&self, process: ProcessKey) -> Vec<Region> {
        self.lock().get(&process).map(parts).unwrap_or_default()
    }
}

/// The nodes of those pages that are there.
fn nodes_of(process: ProcessKey, addresses: &[usize]) -> Option<HashMap<usize, NodeId>> {
    let mut found = HashMap::with_capacity(addresses.len());
    for batch in addresses.chunks(BATCH_PAGES) {
        let status = calls::nodes_of(process.process_id, batch).ok()?;
        found.extend(
            batch
                .iter()
                .zip(status)
                .filter_map(|(page, status)| Some((*page, NodeId(u16::try_from(status).ok()?)))),
        );
    }
    // Its number may be another's by now.
    task::lives(process).then_some(found)
}

fn now_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    (now.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(now.tv_nsec as u64)
}
