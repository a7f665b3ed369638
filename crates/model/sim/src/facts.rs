//! The facts of a window that the planner gets.

use std::collections::BTreeMap;

use egeria_admission::Request;
use egeria_facts::Measured;
use egeria_facts::{
    AccessWindow, MAX_REGIONS, MigrationCost, NodeAccesses, ProcessAccesses, ProcessKey,
    RegionAccesses,
};
use egeria_facts::{Facts, FileFacts, MediumFacts, MemoryTraffic, TrafficOrigin};
use egeria_facts::{FileKey, FileUse, NodeFacts, ThreadFacts, Window};
use egeria_machine::{AccessKind, LINE_BYTES, MemoryKind};
use egeria_policy::pats::Tally;

use crate::file::File;
use crate::rates::model::Model;
use crate::rates::passed::Passed;
use crate::state::{FIRST_PROCESS, START_TICKS, State, Thread};
use crate::workload::MediumKind;

/// Files the planner hears of at most: those used most.
const MAX_FILES: usize = 256;

/// Memories that differ by less than this share on each node lie alike.
const ALIKE: f64 = 1e-6;

/// When the window was, and what it is called.
pub(crate) struct Span {
    pub(crate) number: u64,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
}

/// What became of memory that was to follow its threads.
pub(crate) struct Migrated {
    /// Time that this took of each group of threads, s.
    pub(crate) spent_s: Vec<f64>,
    /// What a gigabyte took; `None` before any was moved.
    pub(crate) cost: Option<MigrationCost>,
}

impl Span {
    fn seconds(&self) -> f64 {
        (self.end_s - self.begin_s).max(1e-9)
    }
}

/// The facts of a window in which so much passed. The traffic of memories is among them if hardware `counts` it.
pub(crate) fn facts(
    model: &Model,
    state: &State,
    passed: &Passed,
    span: &Span,
    migrated: &Migrated,
    counts: bool,
) -> Facts {
    Facts {
        window: window(model, state, span),
        accesses: accesses(model, state, span, migrated),
        media: media(model, state, passed, span),
        files: files(model, state),
        kinds: Vec::new(),
        memories: if counts {
            memories(model, passed, span)
        } else {
            Vec::new()
        },
    }
}

/// Traffic of all memories.
fn memories(model: &Model, passed: &Passed, span: &Span) -> Vec<MemoryTraffic> {
    let places = model.costs.places.iter().enumerate();
    let traffic = places.map(|(index, place)| MemoryTraffic {
        node: model.machine.nodes[place.node].id,
        kind: place.memory.kind,
        read_bytes_s: passed.read_bytes[index] / span.seconds(),
        written_bytes_s: passed.written_bytes[index] / span.seconds(),
        origin: TrafficOrigin::MemoryController,
    });
    let mut all: Vec<MemoryTraffic> = Vec::new();
    for each in traffic {
        if !all
            .iter()
            .any(|other| (other.node, other.kind) == (each.node, each.kind))
        {
            all.push(each);
        }
    }
    all
}

/// A file as policies know it.
pub(crate) fn file_key(index: usize) -> FileKey {
    FileKey {
        volume: 0,
        inode: index as u64 + 1,
    }
}

/// The file that a key names.
pub(crate) fn file_index(key: FileKey) -> Option<usize> {
    usize::try_from(key.inode).ok()?.checked_sub(1)
}

/// The process of a group of threads.
pub(crate) fn process_key(group: usize) -> ProcessKey {
    ProcessKey {
        process_id: FIRST_PROCESS + group as u32,
        start_ticks: START_TICKS,
    }
}

/// The group of threads that a process is.
pub(crate) fn group_index(key: ProcessKey) -> Option<usize> {
    key.process_id
        .checked_sub(FIRST_PROCESS)
        .map(|group| group as usize)
}

/// Sums over memories, per node.
fn per_node(model: &Model, bytes: &[f64]) -> Vec<u64> {
    let mut sums = vec![0.0; model.node_count()];
    for (place, bytes) in model.costs.places.iter().zip(bytes) {
        sums[place.node] += bytes;
    }
    sums.into_iter().map(|bytes| bytes as u64).collect()
}

fn window(model: &Model, state: &State, span: &Span) -> Window {
    let machine = &model.machine;
    let ns = |seconds: f64| (seconds * 1e9).round() as u64;
    let (begin_ns, length_ns) = (ns(span.begin_s), ns(span.end_s - span.begin_s));
    let mut window = Window::empty(machine, span.number, begin_ns, length_ns);
    let threads = state.threads.iter();
    window.threads = threads
        .map(|thread| thread_facts(model, state, thread))
        .collect();
    for (index, node) in window.nodes.iter_mut().enumerate() {
        let here = window.threads.iter();
        let here = here.filter(|thread| thread.node == node.node);
        *node = NodeFacts {
            read_bytes: window
                .threads
                .iter()
                .map(|thread| thread.read_bytes[index])
                .sum(),
            written_bytes: window
                .threads
                .iter()
                .map(|thread| thread.written_bytes[index])
                .sum(),
            busy_ns: here.map(|thread| thread.busy_ns).sum(),
            ..*node
        };
    }
    window
}

fn thread_facts(model: &Model, state: &State, thread: &Thread) -> ThreadFacts {
    let file = &state.files[thread.file];
    let is_storage = file.medium == MediumKind::Storage;
    let bytes = |bytes: &[f64]| {
        if is_storage {
            per_node(model, bytes)
        } else {
            vec![0; model.node_count()]
        }
    };
    let (read_bytes, written_bytes) = (bytes(&thread.read_bytes), bytes(&thread.written_bytes));
    let used = FileUse {
        file: file_key(thread.file),
        read_bytes: read_bytes.iter().sum(),
        written_bytes: written_bytes.iter().sum(),
    };
    let set = if thread.pinned {
        &state.cpus[thread.node]
    } else {
        &state.allowed
    };
    let id = model.machine.nodes[thread.node].id;
    ThreadFacts {
        name: thread.name.clone(),
        pinned: thread.pinned,
        busy_ns: (thread.busy_s * 1e9) as u64,
        is_shared: is_storage && file.users > 1,
        files: if is_storage { vec![used] } else { Vec::new() },
        read_bytes,
        written_bytes,
        ..ThreadFacts::idle(thread.key, id, model.node_count(), set.clone())
    }
}

/// Accesses of programs to their own memory.
fn accesses(model: &Model, state: &State, span: &Span, migrated: &Migrated) -> AccessWindow {
    let mut processes: BTreeMap<usize, Vec<NodeAccesses>> = BTreeMap::new();
    let empty = || -> Vec<NodeAccesses> {
        let node = |node: &egeria_machine::Node| NodeAccesses {
            node: node.id,
            threads: 0,
            pinned: false,
            accesses_s: vec![0.0; model.node_count()],
            resident_bytes: 0,
        };
        model.machine.nodes.iter().map(node).collect()
    };
    let mut seen = vec![false; state.files.len()];
    for thread in &state.threads {
        let file = &state.files[thread.file];
        if file.medium != MediumKind::Memory {
            continue;
        }
        let nodes = processes.entry(thread.group).or_insert_with(empty);
        let here = &mut nodes[thread.node];
        here.threads += 1;
        here.pinned |= thread.pinned;
        for (bytes, place) in thread.missed_bytes.iter().zip(&model.costs.places) {
            here.accesses_s[place.node] += bytes / LINE_BYTES as f64 / span.seconds();
        }
        if !std::mem::replace(&mut seen[thread.file], true) {
            for (share, place) in file.shares.iter().zip(&model.costs.places) {
                nodes[place.node].resident_bytes += (share * file.bytes) as u64;
            }
        }
    }
    let process = |(group, mut nodes): (usize, Vec<NodeAccesses>)| {
        nodes.retain(|node| node.threads > 0 || node.resident_bytes > 0);
        ProcessAccesses {
            process: process_key(group),
            nodes,
            running_ns: (span.end_s * 1e9) as u64,
            migrating_ns: (migrated.spent_s[group] * 1e9) as u64,
            work_s: Some(work_s(state, group, span)),
            accessors_known: true,
            regions: regions(model, state, span, group),
        }
    };
    AccessWindow {
        number: span.number,
        end_ns: (span.end_s * 1e9) as u64,
        processes: processes.into_iter().map(process).collect(),
        migration_cost: migrated.cost,
        free_bytes: free_bytes(model, state),
        kernel_balances: false,
    }
}

/// Memory of a program in parts: what lies alike and is used alike is one, the most used first.
fn regions(model: &Model, state: &State, span: &Span, group: usize) -> Vec<RegionAccesses> {
    let mut used: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    let own = state.threads.iter().filter(|thread| thread.group == group);
    for thread in own.filter(|thread| state.files[thread.file].medium == MediumKind::Memory) {
        let rates = used.entry(thread.file);
        let rates = rates.or_insert_with(|| vec![0.0; model.node_count()]);
        let bytes: f64 = thread.missed_bytes.iter().sum();
        rates[thread.node] += bytes / LINE_BYTES as f64 / span.seconds();
    }
    let mut regions: Vec<(RegionAccesses, &File)> = Vec::new();
    for (index, rates) in used {
        let file = &state.files[index];
        let is_alike = |(region, first): &&mut (RegionAccesses, &File)| {
            let mut both = region.accesses_s.iter().zip(&rates);
            let shares = first.shares.iter().zip(&file.shares);
            let mut apart = shares.map(|(one, other)| (one - other).abs());
            apart.all(|share| share < ALIKE)
                && both.all(|(one, other)| (*one > 0.0) == (*other > 0.0))
        };
        let held: Vec<f64> = file.shares.iter().map(|share| share * file.bytes).collect();
        let resident_bytes = per_node(model, &held);
        if let Some((region, _)) = regions.iter_mut().find(is_alike) {
            let both = region.resident_bytes.iter_mut().zip(resident_bytes);
            both.for_each(|(sum, bytes)| *sum += bytes);
            let both = region.accesses_s.iter_mut().zip(rates);
            both.for_each(|(sum, rate)| *sum += rate);
            continue;
        }
        let region = RegionAccesses {
            // The same for all programs that share it.
            start: (index as u64 + 1) << 40,
            resident_bytes,
            accesses_s: rates,
            is_fixed: false,
        };
        regions.push((region, file));
    }
    let mut regions: Vec<RegionAccesses> = regions.into_iter().map(|(region, _)| region).collect();
    let rate = |region: &RegionAccesses| -> f64 { region.accesses_s.iter().sum() };
    regions.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    regions.truncate(MAX_REGIONS);
    regions
}

/// Room of each node for memory of programs; none where the size of one is not known.
fn free_bytes(model: &Model, state: &State) -> Vec<u64> {
    let room = |node: usize| match model.place_of(node, MediumKind::Memory) {
        Some(place) => state.free_bytes(model, place),
        None => Some(0),
    };
    let rooms: Option<Vec<u64>> = (0..model.node_count()).map(room).collect();
    rooms.unwrap_or_default()
}

/// Operations per second of a group of threads.
fn work_s(state: &State, group: usize, span: &Span) -> f64 {
    let own = state.threads.iter().filter(|thread| thread.group == group);
    own.map(|thread| thread.reads + thread.writes).sum::<f64>() / span.seconds()
}

/// Each node's persistent memory or other memory of files that falls with many threads, and the room in memories of known size.
fn media(model: &Model, state: &State, passed: &Passed, span: &Span) -> Vec<MediumFacts> {
    let is_bounded = |place: &usize| {
        let own = &model.costs.places[*place];
        let is_of_files = model.place_of(own.node, MediumKind::Storage) == Some(*place);
        own.memory.kind == MemoryKind::Persistent || (is_of_files && own.memory.medium().falls())
    };
    let bounded = (0..model.costs.places.len()).filter(is_bounded);
    let medium = |place: usize| {
        let mut tally = Tally::default();
        let mut demand = 0;
        // Threads of memory that is no file ask for no admission.
        let asks = |thread: &&Thread| state.files[thread.file].medium == MediumKind::Storage;
        for thread in state.threads.iter().filter(asks) {
            let moved = thread.read_bytes[place] + thread.written_bytes[place];
            if moved <= 0.0 {
                continue;
            }
            demand += 1;
            let part = |bytes: &[f64]| bytes[place] / bytes.iter().sum::<f64>().max(1e-9);
            let reads = thread.reads * part(&thread.read_bytes);
            let writes = thread.writes * part(&thread.written_bytes);
            tally.merge(&tally_of(thread, AccessKind::Read, reads));
            tally.merge(&tally_of(thread, AccessKind::Write, writes));
        }
        let at = |place: usize| passed.read_bytes[place] + passed.written_bytes[place];
        let mine = &model.costs.places[place];
        let others = (0..model.costs.places.len()).filter(|other| *other != place);
        let others = others.filter(|other| {
            let other = &model.costs.places[*other];
            other.node == mine.node && other.memory.kind == MemoryKind::Dram
        });
        MediumFacts {
            node: model.machine.nodes[mine.node].id,
            measured: Measured {
                mix: tally.mix(),
                demand,
                pm_bytes_s: at(place) / span.seconds(),
                dram_bytes_s: Some(others.map(at).sum::<f64>() / span.seconds()),
            },
            free_bytes: None,
            striped_files: None,
        }
    };
    let mut all: Vec<MediumFacts> = bounded.map(medium).collect();
    for node in 0..model.machine.nodes.len() {
        let id = model.machine.nodes[node].id;
        let room = (model.place_of(node, MediumKind::Storage))
            .and_then(|place| state.free_bytes(model, place));
        match all.iter_mut().find(|facts| facts.node == id) {
            Some(facts) => facts.free_bytes = room,
            None => all.extend(room.map(|room| MediumFacts {
                node: id,
                measured: Measured::default(),
                free_bytes: Some(room),
                striped_files: None,
            })),
        }
    }
    all
}

/// The counts of `requests` requests of the thread's present phase.
fn tally_of(thread: &Thread, kind: AccessKind, requests: f64) -> Tally {
    let bytes = thread.phase().request_bytes;
    let request = Request { kind, bytes };
    let mut one = Tally::default();
    one.add(request);
    let requests = requests.round() as u64;
    Tally {
        requests: one.requests * requests,
        writes: one.writes * requests,
        bytes: one.bytes * u128::from(requests),
    }
}

/// The files used most.
fn files(model: &Model, state: &State) -> Vec<FileFacts> {
    let used =
        |file: &File| -> f64 { file.written_bytes + file.read_bytes.iter().flatten().sum::<f64>() };
    let is_file = |index: &usize| state.files[*index].medium == MediumKind::Storage;
    let mut order: Vec<usize> = (0..state.files.len()).filter(is_file).collect();
    order.sort_by(|one, other| {
        let (one, other) = (used(&state.files[*one]), used(&state.files[*other]));
        other.total_cmp(&one)
    });
    order.truncate(MAX_FILES);
    let file_facts = |index: usize| {
        let file = &state.files[index];
        let held: Vec<f64> = file.shares.iter().map(|share| share * file.bytes).collect();
        let mut replicas = vec![false; model.node_count()];
        for (place, has) in model.costs.places.iter().zip(&file.replicas) {
            replicas[place.node] |= has;
        }
        FileFacts {
            file: file_key(index),
            bytes: file.bytes as u64,
            bytes_on: per_node(model, &held),
            read_bytes: file
                .read_bytes
                .iter()
                .map(|row| per_node(model, row))
                .collect(),
            written_bytes: file.written_bytes as u64,
            replicas,
        }
    };
    order.into_iter().map(file_facts).collect()
}
