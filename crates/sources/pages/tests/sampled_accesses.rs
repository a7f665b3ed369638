//! Samples of events become accesses of processes: by recorded rings of a PMU that is not here, and by page faults that are.

use egeria_harness::testing::skip;
use std::time::Duration;

use egeria_facts::ProcessKey;
use egeria_machine::{CpuId, Machine, NodeId};
use egeria_pages::accesses::{HotPages, Sampled, Sampler};
use egeria_pages::probe;
use egeria_perf::{Event, EventSampler, Kind, RecordedRings};
use egeria_proc::task;
use rustix::time::{ClockId, clock_gettime};

const PAGE: usize = 4096;
/// Answered by the memory near by, and by the cache of the core: as the kernel tells it of loads on Intel.
const FROM_MEMORY: u64 = 0x2 | (0x80 | 0x2) << 5 | 0xd << 33;
const FROM_CACHE: u64 = 0x2 | (0x8 | 0x2) << 5 | 0x1 << 33;

fn own() -> ProcessKey {
    task::process(std::process::id()).unwrap()
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A sample as the kernel writes it.
struct Written {
    process_id: u32,
    time_ns: u64,
    address: usize,
    cpu: CpuId,
    source: u64,
}

impl Written {
    fn of_own(address: usize, cpu: CpuId) -> Written {
        Written {
            process_id: std::process::id(),
            time_ns: now_ns(),
            address,
            cpu,
            source: FROM_MEMORY,
        }
    }

    /// Stands for 1,000 loads.
    fn bytes(&self) -> Vec<u8> {
        let ids = u64::from(self.process_id) | u64::from(self.process_id) << 32;
        let cpu = u64::from(self.cpu.0);
        let head = 9 | 56 << 48;
        let words = [
            head,
            ids,
            self.time_ns,
            self.address as u64,
            cpu,
            1000,
            self.source,
        ];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// `lost` samples found no room.
fn sampled(written: &[Written], lost: u64) -> Sampled<RecordedRings> {
    let mut ring: Vec<u8> = written.iter().flat_map(Written::bytes).collect();
    let of_lost = [2 | 24 << 48, 0, lost];
    ring.extend(of_lost.iter().flat_map(|word: &u64| word.to_ne_bytes()));
    let events = RecordedRings {
        kind: Kind::Loads,
        took: Duration::from_millis(100),
        rings: [ring].into(),
    };
    Sampled::new(events, Machine::profile("optane-2s").unwrap())
}

fn cpu_of(node: usize) -> CpuId {
    Machine::profile("optane-2s").unwrap().nodes[node].cpus[0]
}

/// Memory that is there, from the begin of a page on.
fn memory(pages: usize) -> (Vec<u8>, usize) {
    let bytes = vec![1_u8; (pages + 1) * PAGE];
    let first = (bytes.as_ptr() as usize).next_multiple_of(PAGE);
    (bytes, first)
}

fn has_nodes() -> bool {
    let has = probe::page_nodes().is_ok();
    if !has {
        skip("this kernel does not tell the nodes of pages");
    }
    has
}

#[test]
fn accesses_are_counted_by_nodes_of_thread_and_memory() {
    if !has_nodes() {
        return;
    }
    let (_memory, first) = memory(4);
    let (here, there) = (cpu_of(0), cpu_of(1));
    let mut written = vec![
        Written::of_own(first, here),
        Written::of_own(first + 8, here),
        Written::of_own(first + PAGE, here),
        Written::of_own(first + 2 * PAGE, there),
    ];
    // These are no accesses to memory of this process: a cache's, of nobody, of the kernel, where nothing is.
    let mut of_cache = Written::of_own(first, here);
    of_cache.source = FROM_CACHE;
    let mut of_another = Written::of_own(first, here);
    of_another.process_id = 0;
    let of_kernel = Written::of_own(usize::MAX - PAGE, here);
    let nowhere = Written::of_own(PAGE, here);
    written.extend([of_cache, of_another, of_kernel, nowhere]);
    let mut sampler = sampled(&written, 0);
    let samples = sampler.sample(&[own()]);
    let [sample] = &samples[..] else {
        panic!("{samples:?}");
    };
    let [(node, _)] = sample.accessed.iter().collect::<Vec<_>>()[..] else {
        panic!("one node has all of it: {sample:?}");
    };
    assert_eq!(sample.accessed.total(), 4 * 1000 * 64);
    let from = |node_of_thread: u16| {
        let mut all = sample.from.iter();
        let found = all.find(|(from, _)| *from == NodeId(node_of_thread));
        found.map_or(0, |(_, accessed)| accessed.of(node))
    };
    assert_eq!((from(0), from(1)), (3 * 1000 * 64, 1000 * 64));
    assert!(sample.resident.total() > 0);
    assert_eq!(sample.took, Duration::from_millis(100));
    let mut hot = sampler.hot();
    let pages = hot.hot_pages(own(), &[node], 2);
    assert_eq!(pages[0], (first, node), "that of two samples is hottest");
    assert_eq!(pages.len(), 2);
    assert!(hot.hot_pages(own(), &[NodeId(63)], 9).is_empty());
    // Nothing more was sampled: what was counts half, and a half of that, until it is forgotten.
    for _ in 0..11 {
        sampler.sample(&[own()]);
    }
    assert!(hot.hot_pages(own(), &[node], 9).is_empty());
}

#[test]
fn regions_know_the_node_whose_threads_access_them() {
    if !has_nodes() {
        return;
    }
    const REGION: usize = 2 << 20;
    let (_memory, first) = memory(3 * REGION / PAGE);
    let first = first.next_multiple_of(REGION);
    let (here, there) = (cpu_of(0), cpu_of(1));
    let written = [
        Written::of_own(first, here),
        Written::of_own(first + PAGE, there),
        Written::of_own(first + REGION, there),
        Written::of_own(first + REGION + PAGE, there),
    ];
    let mut sampler = sampled(&written, 0);
    let sample = sampler.sample(&[own()]).remove(0);
    let mut regions = sample.regions;
    regions.sort_by_key(|region| region.range.start);
    let found: Vec<_> = regions
        .iter()
        .map(|region| (region.range.start, region.accessor()))
        .collect();
    let accessors = [(first, None), (first + REGION, Some(NodeId(1)))];
    assert_eq!(found, accessors, "{regions:?}");
    assert_eq!(regions[1].resident.total(), REGION as u64);
}

#[test]
fn lost_samples_are_taken_to_be_as_the_others() {
    if !has_nodes() {
        return;
    }
    let (_memory, first) = memory(1);
    let written = [Written::of_own(first, cpu_of(0))];
    let samples = sampled(&written, 3).sample(&[own()]);
    assert_eq!(samples[0].accessed.total(), 4 * 1000 * 64);
}

#[test]
fn samples_of_an_earlier_process_of_the_number_are_dropped() {
    if !has_nodes() {
        return;
    }
    let (_memory, first) = memory(1);
    let asleep_ns = {
        let boot = clock_gettime(ClockId::Boottime);
        (boot.tv_sec as u64 * 1_000_000_000 + boot.tv_nsec as u64).saturating_sub(now_ns())
    };
    let mut before = Written::of_own(first, cpu_of(0));
    before.time_ns = own().start_ticks * 10_000_000 - asleep_ns - 1_000_000;
    let samples = sampled(&[before], 0).sample(&[own()]);
    assert_eq!(samples[0].accessed.total(), 0);
    // Nor is the process of now asked for pages of one that is gone.
    let gone = ProcessKey {
        start_ticks: 1,
        ..own()
    };
    let written = [Written::of_own(first, cpu_of(0))];
    assert!(sampled(&written, 0).sample(&[gone]).is_empty());
}

#[test]
fn page_faults_of_this_machine_are_accesses() {
    if !has_nodes() {
        return;
    }
    let window = Duration::from_secs(1);
    let events = match EventSampler::begin(&[Event::page_faults()], window) {
        Ok(events) => events,
        Err(error) => {
            skip(error);
            return;
        }
    };
    let machine = Machine::detect().unwrap();
    let mut sampler = Sampled::new(events, machine.clone());
    sampler.sample(&[own()]);
    let (memory, first) = memory(200);
    let samples = sampler.sample(&[own()]);
    let [sample] = &samples[..] else {
        panic!("{samples:?}");
    };
    // Some may lie in huge pages, which come with one fault each.
    assert!(sample.accessed.total() >= 4096, "{sample:?}");
    let from: u64 = sample
        .from
        .iter()
        .map(|(_, accessed)| accessed.total())
        .sum();
    assert_eq!(from, sample.accessed.total());
    assert!(
        sample
            .from
            .iter()
            .all(|(node, _)| machine.index_of(*node).is_some())
    );
    let (node, _) = sample.accessed.iter().next().unwrap();
    let pages = sampler.hot().hot_pages(own(), &[node], usize::MAX);
    let inside = first..first + memory.len();
    assert!(
        pages.iter().any(|(page, _)| inside.contains(page)),
        "{pages:?}"
    );
}
