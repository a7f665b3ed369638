//! The programs of a window: their heap, what the page cache has of their files, and what they read of files.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use egeria_facts::{Facts, ThreadFacts, Window};
use egeria_machine::{Machine, NodeId, format_bandwidth, format_bytes};
use egeria_pages::file::Locator;
use egeria_pages::threads::{OnNode, Threads};
use egeria_pages::{NodeBytes, file_io, process};
use egeria_proc::task;
use serde::Serialize;

use super::explain::sentences::percent;
use super::where_is::nodes::{BytesOfNode, bytes_of_nodes};

/// Programs of a window that are looked at: the heaviest.
pub(super) const MAX_PROGRAMS: usize = 16;
/// Pages of files located for all of them: a tenth of a second.
const MAX_PAGES: u64 = 1 << 18;
/// Programs that did less than one part in this number of a second's work are left out.
const IDLE_PARTS: u64 = 1000;
/// What was found of memory counts for this many times as long as the look took: the kernel walks page tables for it.
const REST_TIMES: u32 = 50;

/// One program in one window.
#[derive(Clone, Serialize)]
pub(super) struct ProgramRow {
    pub(super) process_id: u32,
    pub(super) name: String,
    /// Threads on each node, and how long they ran.
    pub(super) threads: Vec<ThreadsOfNode>,
    /// CPUs that it kept busy.
    pub(super) cpu_share: f64,
    /// Heap and stacks; `None` where it may not be looked at.
    pub(super) heap: Option<Held>,
    /// Mapped files and shared memory.
    pub(super) mapped: Option<Held>,
    /// What the page cache has of its open files.
    pub(super) page_cache: Option<Held>,
    /// `None` where nothing counts what is read and written of files.
    pub(super) read_bytes_s: Option<f64>,
    pub(super) written_bytes_s: Option<f64>,
    /// Share of the bytes read and written that is on the thread's own node.
    pub(super) files_local_share: Option<f64>,
}

#[derive(Clone, Serialize)]
pub(super) struct ThreadsOfNode {
    pub(super) node: NodeId,
    pub(super) threads: u64,
    pub(super) busy_ns: u64,
}

/// Memory by node.
#[derive(Clone, Serialize)]
pub(super) struct Held {
    pub(super) bytes: u64,
    /// Share of the accesses that are local if each thread accesses all of it alike.
    pub(super) local_share: Option<f64>,
    pub(super) nodes: Vec<BytesOfNode>,
}

/// What processes have in memory, looked at from time to time.
#[derive(Default)]
pub(super) struct Contents {
    known: HashMap<u32, Found>,
    rest_until: Option<Instant>,
}

#[derive(Clone, Default)]
struct Found {
    /// Heap, and mapped files.
    memory: Option<(NodeBytes, NodeBytes)>,
    page_cache: Option<NodeBytes>,
}

impl Contents {
    /// The heaviest programs of the window; the kernel's own threads are none.
    pub(super) fn rows(&mut self, machine: &Machine, facts: &Facts) -> Vec<ProgramRow> {
        let heaviest = heaviest(&facts.window).into_iter();
        let programs = heaviest.filter(|process_id| task::is_of_kernel(*process_id) == Some(false));
        let heaviest: Vec<u32> = programs.take(MAX_PROGRAMS).collect();
        self.rows_of(machine, facts, &heaviest)
    }

    /// These programs, in this order.
    pub(super) fn rows_of(
        &mut self,
        machine: &Machine,
        facts: &Facts,
        processes: &[u32],
    ) -> Vec<ProgramRow> {
        self.look(processes);
        let window = &facts.window;
        let rows = processes.iter().map(|process_id| {
            let own = window.threads.iter();
            let own = own.filter(|thread| thread.key.process_id == *process_id);
            let own: Vec<&ThreadFacts> = own.collect();
            let name = task::name(*process_id, *process_id);
            let found = &self.known[process_id];
            ProgramRow::new(machine, window, (*process_id, name), &own, found)
        });
        rows.collect()
    }

    fn look(&mut self, processes: &[u32]) {
        let begin = Instant::now();
        if self.rest_until.is_none_or(|until| begin >= until) {
            self.known.clear();
        }
        let mut locator = Locator::for_many(MAX_PAGES).ok();
        let mut looked = Duration::ZERO;
        for process_id in processes {
            self.known.entry(*process_id).or_insert_with(|| {
                let since = Instant::now();
                let found = Found::of(*process_id, locator.as_mut());
                looked += since.elapsed();
                found
            });
        }
        let rest = self.rest_until.unwrap_or(begin).max(begin);
        self.rest_until = Some(rest + looked * REST_TIMES);
    }
}

impl Found {
    fn of(process_id: u32, locator: Option<&mut Locator>) -> Found {
        let memory = process::memory(process_id).ok();
        Found {
            page_cache: memory
                .is_some()
                .then(|| file_io::cached_of(process_id, locator)),
            memory: memory.map(|memory| (memory.anonymous, memory.files)),
        }
    }
}

/// Processes of a window by their work, most first: a second of a CPU counts as much as a gigabyte. Those that did next
/// to nothing are left out.
pub(super) fn heaviest(window: &Window) -> Vec<u32> {
    let mut work: BTreeMap<u32, u64> = BTreeMap::new();
    for thread in &window.threads {
        let own = thread.busy_ns.saturating_add(thread.moved_total());
        let sum = work.entry(thread.key.process_id).or_default();
        *sum = sum.saturating_add(own);
    }
    let least = (window.duration_ns / IDLE_PARTS).max(1);
    let mut all: Vec<(u32, u64)> = work
        .into_iter()
        .filter(|(_, work)| *work >= least)
        .collect();
    all.sort_by_key(|(process_id, work)| (Reverse(*work), *process_id));
    all.into_iter().map(|(process_id, _)| process_id).collect()
}

impl ProgramRow {
    /// A program of a recording, which says how much of its memory is where, and not of which sort it is.
    pub(super) fn recorded(machine: &Machine, facts: &Facts, process_id: u32) -> ProgramRow {
        let window = &facts.window;
        let own = window.threads.iter();
        let own = own.filter(|thread| thread.key.process_id == process_id);
        let own: Vec<&ThreadFacts> = own.collect();
        let first = own.iter().find(|thread| thread.key.thread_id == process_id);
        let name = first.or(own.first()).map_or("", |thread| &thread.name);
        let accesses = facts.accesses.processes.iter();
        let mut accesses = accesses.filter(|found| found.process.process_id == process_id);
        let memory = accesses.next_back().map(|found| {
            let mut resident = NodeBytes::default();
            for each in &found.nodes {
                resident.add(each.node, each.resident_bytes);
            }
            (resident, NodeBytes::default())
        });
        let found = Found {
            memory,
            page_cache: None,
        };
        let named = (process_id, name.to_owned());
        ProgramRow {
            mapped: None,
            ..ProgramRow::new(machine, window, named, &own, &found)
        }
    }

    fn new(
        machine: &Machine,
        window: &Window,
        (process_id, name): (u32, String),
        own: &[&ThreadFacts],
        found: &Found,
    ) -> ProgramRow {
        let mut threads = Threads::default();
        let (mut read, mut written, mut local) = (0_u64, 0_u64, 0.0);
        for thread in own {
            let on: &mut OnNode = threads.by_node.entry(thread.node).or_default();
            on.threads += 1;
            on.busy_ns = on.busy_ns.saturating_add(thread.busy_ns);
            threads.count += 1;
            read = read.saturating_add(thread.read_total());
            written = written.saturating_add(thread.written_total());
            let share = thread.local_share(machine).unwrap_or(0.0);
            local += thread.moved_total() as f64 * share;
        }
        let busy_ns = threads.by_node.values().map(|on| on.busy_ns);
        let busy_ns = busy_ns.fold(0, u64::saturating_add);
        let moved = read.saturating_add(written);
        let held = |bytes: &NodeBytes| Held {
            bytes: bytes.total(),
            local_share: threads.remote_share(bytes).map(|remote| 1.0 - remote),
            nodes: bytes_of_nodes(bytes),
        };
        let memory = found.memory.as_ref();
        let (heap, mapped) = memory
            .map(|(heap, mapped)| (held(heap), held(mapped)))
            .unzip();
        ProgramRow {
            process_id,
            name,
            cpu_share: busy_ns as f64 / window.duration_ns.max(1) as f64,
            heap,
            mapped,
            page_cache: found.page_cache.as_ref().map(held),
            read_bytes_s: Some(window.rate_bytes_s(read)),
            written_bytes_s: Some(window.rate_bytes_s(written)),
            files_local_share: (moved > 0).then(|| local / moved as f64),
            threads: (threads.by_node.iter())
                .map(|(node, on)| ThreadsOfNode {
                    node: *node,
                    threads: on.threads,
                    busy_ns: on.busy_ns,
                })
                .collect(),
        }
    }
}

/// Headers of programs; `>`: to the right.
pub(super) const PROGRAM_HEADERS: [&str; 10] = [
    ">process",
    "name",
    "threads on nodes",
    ">CPU",
    ">heap",
    ">local",
    ">page cache",
    ">local",
    ">files, read + written",
    ">local",
];

impl ProgramRow {
    /// The same where nothing counts what is read and written of files.
    pub(super) fn without_files(self) -> ProgramRow {
        ProgramRow {
            read_bytes_s: None,
            written_bytes_s: None,
            files_local_share: None,
            ..self
        }
    }

    /// Its cells, as the headers say.
    pub(super) fn cells(&self) -> Vec<String> {
        let [heap, page_cache] = [&self.heap, &self.page_cache].map(|held| {
            let bytes = held.as_ref().map(|held| format_bytes(held.bytes));
            let local = held.as_ref().and_then(|held| held.local_share);
            [bytes.unwrap_or_else(|| "?".to_owned()), percent(local)]
        });
        let threads = self.threads.iter();
        let threads = threads.map(|on| format!("{}: {}", on.node.0, on.threads));
        let mut cells = vec![
            self.process_id.to_string(),
            self.name.clone(),
            threads.collect::<Vec<String>>().join(", "),
            percent(Some(self.cpu_share)),
        ];
        cells.extend(heap);
        cells.extend(page_cache);
        let moved_bytes_s = self.read_bytes_s.zip(self.written_bytes_s);
        cells.push(moved_bytes_s.map_or("?".to_owned(), |(read, written)| {
            format_bandwidth(read + written)
        }));
        cells.push(percent(self.files_local_share));
        cells
    }
}
