//! Recordings of windows: frames forged under right checksums, and damage by chance. What can still be read
//! is given to every policy.

use super::subject::{Case, Observations, Subject, one_line};
use super::text_mutator::mutate;
use super::values::HostileValues;
use egeria_engine::format::checksum::{crc32c, crc32c_append};
use egeria_facts::{
    Facts, FileFacts, FileKey, FileUse, Measured, MediumFacts, MemoryTraffic, MigrationCost, Mix,
    NodeAccesses, ProcessAccesses, ProcessKey, RegionAccesses, ThreadFacts, ThreadKey,
    TrafficOrigin, Window,
};
use egeria_machine::{Machine, MemoryKind};
use egeria_policy::planner::{Planner, System};
use egeria_stats::rng::Rng;
use egeria_trace::{Reader, TraceHeader, VERSION, Writer};
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Magic and version.
const START_BYTES: usize = 12;
/// Length, sum of the payload, sum of these.
const HEAD_BYTES: usize = 12;
/// Bytes of a window that are compressed together.
const PART_BYTES: usize = 32 << 10;
/// The kind of a frame with a window.
const WINDOW: u8 = 2;
const SECOND_NS: u64 = 1_000_000_000;
const WORDS: [&str; 10] = [
    "\"volume\":",
    "\"machine\":",
    "null",
    "[[nodes]]\\n",
    "\\\"",
    "\"command\":",
    "cpus",
    "\"source\":",
    "{}",
    "18446744073709551615",
];

/// A file in memory that can be opened by its path.
pub(super) struct Scratch(File);

impl Scratch {
    pub(super) fn new() -> Result<Scratch, String> {
        let file = memfd_create("egeria-fuzz", MemfdFlags::CLOEXEC);
        file.map(|file| Scratch(file.into()))
            .map_err(|error| format!("no memory file: {error}"))
    }

    fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    /// Have it hold this and nothing else; its path.
    pub(super) fn hold(&self, bytes: &[u8]) -> Result<PathBuf, String> {
        let held = self
            .0
            .set_len(0)
            .and_then(|()| self.0.write_all_at(bytes, 0));
        held.map_err(|error| error.to_string())?;
        Ok(self.path())
    }
}

/// Recordings, each as its frames.
pub(super) struct Traces {
    scratch: Scratch,
    samples: Vec<Vec<Vec<u8>>>,
}

impl Traces {
    pub(super) fn new() -> Result<Traces, String> {
        let scratch = Scratch::new()?;
        let mut samples = Vec::new();
        for (nodes, threads, windows) in [(1, 0, 1), (2, 5, 4), (8, 40, 3), (2, 1, 30)] {
            let bytes = record(nodes, threads, windows)?;
            samples.push(frames(&bytes));
        }
        Ok(Traces { scratch, samples })
    }
}

/// Record some windows that use everything the format has.
fn record(nodes: u32, threads: u32, windows: u64) -> Result<Vec<u8>, String> {
    let node = |id| {
        format!(
            "[[nodes]]\nid = {id}\ncpus = \"{}-{}\"\n",
            2 * id,
            2 * id + 1
        )
    };
    let tables: String = (0..nodes).map(node).collect();
    let text = format!("name = \"fuzzed\"\n{tables}");
    let machine = Machine::from_toml(&text, Path::new("fuzzed.toml"));
    let machine = machine.map_err(|error| error.to_string())?;
    let header = TraceHeader {
        volume: "6f2b7f3e-6d1c-4f8e-9a55-0c3f1d2e4b5a".parse().ok(),
        command: vec!["fio".to_owned(), "--name=x".to_owned()],
        policy: "full".to_owned(),
        started_unix_ns: 1_790_000_000_123_456_789,
    };
    // Not the scratch file: recordings follow no links, as its path is one.
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let path = directory.path().join("trace");
    let mut writer = Writer::create(&path, &machine, &header).map_err(|error| error.to_string())?;
    for number in 0..windows {
        let mut window = Window::empty(&machine, number, number * SECOND_NS, SECOND_NS);
        window.threads = (0..threads)
            .map(|index| thread(&machine, number, index))
            .collect();
        let facts = whole(&machine, window, number);
        writer.append(&facts).map_err(|error| error.to_string())?;
    }
    writer.finish().map_err(|error| error.to_string())?;
    std::fs::read(&path).map_err(|error| error.to_string())
}

/// With facts beside file I/O in every second window.
fn whole(machine: &Machine, window: Window, number: u64) -> Facts {
    let mut facts = Facts::of(window);
    if !number.is_multiple_of(2) {
        return facts;
    }
    let nodes = machine.nodes.len();
    facts.accesses.processes = vec![ProcessAccesses {
        process: ProcessKey {
            process_id: 100,
            start_ticks: 1,
        },
        nodes: vec![NodeAccesses {
            node: machine.nodes[0].id,
            threads: 2,
            pinned: false,
            accesses_s: vec![1e7; nodes],
            resident_bytes: 1 << 30,
        }],
        running_ns: SECOND_NS,
        migrating_ns: 0,
        work_s: Some(1e9),
        accessors_known: true,
        regions: vec![RegionAccesses {
            start: 0x7000_0000,
            resident_bytes: vec![1 << 20; nodes],
            accesses_s: vec![1e6; nodes],
            is_fixed: true,
        }],
    }];
    facts.accesses.free_bytes = vec![1 << 30; nodes];
    facts.accesses.migration_cost = Some(MigrationCost {
        s_per_gb: 0.5,
        bytes: 1 << 30,
        migrations: 2,
    });
    facts.media = vec![MediumFacts {
        node: machine.nodes[0].id,
        measured: Measured {
            mix: Mix {
                requests: 1000,
                mean_bytes: 4096.0,
                write_share: 0.5,
            },
            demand: 8,
            pm_bytes_s: 2e9,
            dram_bytes_s: Some(1e9),
        },
        free_bytes: Some(1 << 30),
        striped_files: Some(true),
    }];
    facts.memories = vec![MemoryTraffic {
        node: machine.nodes[0].id,
        kind: MemoryKind::Dram,
        read_bytes_s: 3e9,
        written_bytes_s: 1e9,
        origin: TrafficOrigin::MemoryController,
    }];
    facts.files = vec![FileFacts {
        file: FileKey {
            volume: 0,
            inode: 1,
        },
        bytes: 1 << 30,
        bytes_on: vec![1 << 30],
        read_bytes: vec![vec![1 << 32; nodes]; nodes],
        written_bytes: 0,
        replicas: Vec::new(),
    }];
    facts
}

fn thread(machine: &Machine, window: u64, index: u32) -> ThreadFacts {
    let key = ThreadKey {
        process_id: 100 + index / 4,
        thread_id: 100 + index,
        start_ticks: 1_000_000 + u64::from(index) + window / 3,
    };
    let nodes = machine.nodes.len();
    let node = machine.nodes[index as usize % nodes].id;
    let cpus = "0-1".parse().unwrap_or_default();
    let mut facts = ThreadFacts::idle(key, node, nodes, cpus);
    facts.name = format!("worker-{index}");
    facts.busy_ns = SECOND_NS / u64::from(index + 1);
    for place in 0..nodes {
        facts.read_bytes[place] = u64::from(index) << (20 + place);
        facts.written_bytes[place] = window << 20;
    }
    facts.is_shared = index % 3 == 1;
    facts.pinned = index % 5 == 4;
    facts.files = (0..u64::from(index % 4))
        .map(|inode| FileUse {
            file: FileKey { volume: 0, inode },
            read_bytes: 3 << 20,
            written_bytes: 1,
        })
        .collect();
    facts
}

/// The payloads of a recording's frames, with windows expanded.
fn frames(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut frames, mut last) = (Vec::new(), Vec::new());
    let mut rest = bytes.get(START_BYTES..).unwrap_or_default();
    while rest.len() >= HEAD_BYTES {
        let length = u32::from_le_bytes(std::array::from_fn(|at| rest[at])) as usize;
        let Some(payload) = rest.get(HEAD_BYTES..HEAD_BYTES + length) else {
            break;
        };
        frames.push(expand(payload, &mut last).unwrap_or_else(|| payload.to_vec()));
        rest = &rest[HEAD_BYTES + length..];
    }
    frames
}

/// The kind of a window, and its facts before they were compressed. The window before is the dictionary.
fn expand(payload: &[u8], last: &mut Vec<u8>) -> Option<Vec<u8>> {
    let (head, block) = payload.split_at_checked(1 + 4 + 4)?;
    if head[0] != WINDOW {
        return None;
    }
    // The samples have one part of at most so many bytes.
    *last = lz4_flex::block::decompress_with_dict(block, PART_BYTES, last).ok()?;
    Some([&[WINDOW], &last[..]].concat())
}

/// Compress windows, each on its own.
fn pack(frames: &mut [Vec<u8>]) {
    for frame in frames {
        if let Some((&WINDOW, facts)) = frame.split_first() {
            let mut payload = vec![WINDOW];
            payload.extend((facts.len() as u32).to_le_bytes());
            for part in facts.chunks(PART_BYTES) {
                let block = lz4_flex::block::compress(part);
                payload.extend((block.len() as u32).to_le_bytes());
                payload.extend(block);
            }
            *frame = payload;
        }
    }
}

/// A recording of these frames, sealed.
fn seal(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"\x89EGERIA\n".to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    for (number, payload) in frames.iter().enumerate() {
        let sum = |bytes: &[u8]| crc32c_append(crc32c(&(number as u64).to_le_bytes()), bytes);
        let mut head = (payload.len() as u32).to_le_bytes().to_vec();
        head.extend_from_slice(&sum(payload).to_le_bytes());
        let head_sum = sum(&head);
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&head_sum.to_le_bytes());
        bytes.extend_from_slice(payload);
    }
    bytes
}

/// Change frames behind their checksums.
fn change(rng: &mut Rng, frames: &mut Vec<Vec<u8>>) {
    if frames.is_empty() {
        return;
    }
    let (place, other) = (rng.index(frames.len()), rng.index(frames.len()));
    match rng.below(12) {
        0 => frames.swap(place, other),
        1 => drop(frames.remove(place)),
        2 => {
            let again = frames[place].clone();
            frames.insert(other, again);
        }
        3 => mutate(rng, &mut frames[0], &WORDS),
        4 => {
            let end = rng.index(frames[place].len() + 1);
            frames[place].truncate(end);
        }
        5 => {
            let more = rng.index(64);
            let byte = rng.boundary_value() as u8;
            let length = frames[place].len() + more;
            frames[place].resize(length, byte);
        }
        _ => change_bytes(rng, &mut frames[place]),
    }
}

/// Numbers are of many lengths: bytes, and runs of them.
fn change_bytes(rng: &mut Rng, payload: &mut Vec<u8>) {
    if payload.is_empty() {
        return;
    }
    let place = if rng.one_in(2) {
        rng.index(payload.len().min(40))
    } else {
        rng.index(payload.len())
    };
    match rng.below(4) {
        0 => payload[place] ^= 1 << rng.below(8),
        1 => payload[place] = rng.boundary_value() as u8,
        2 => {
            let word = rng.boundary_value().to_le_bytes();
            let end = ((place + 1) << rng.below(4)).min(payload.len()).max(place);
            payload.splice(place..end, word);
        }
        _ => drop(payload.splice(place..place, vec![0xff; 1 + rng.index(10)])),
    }
}

impl Subject for Traces {
    fn samples(&self) -> usize {
        self.samples.len()
    }

    fn attempt(&mut self, case: &Case, observed: &mut Observations) -> Result<(), String> {
        let mut frames = self.samples[case.sample as usize % self.samples.len()].clone();
        let mut rng = Rng::new(case.use_seed);
        let raw = rng.one_in(4);
        let compressed = rng.one_in(4);
        if compressed {
            pack(&mut frames);
        }
        for step in case.mutation_seeds.iter().skip(usize::from(raw)) {
            change(&mut Rng::new(*step), &mut frames);
        }
        if !compressed {
            pack(&mut frames);
        }
        let mut bytes = seal(&frames);
        if let Some(step) = case.mutation_seeds.first().filter(|_| raw) {
            change_bytes(&mut Rng::new(*step), &mut bytes);
        }
        observed.line(|| format!("{} frames, {} bytes", frames.len(), bytes.len()));
        let path = self.scratch.hold(&bytes)?;
        read(&path, observed)
    }
}

fn read(path: &Path, observed: &mut Observations) -> Result<(), String> {
    let mut reader = match Reader::open(path) {
        Ok(reader) => reader,
        Err(error) => {
            observed.record(&format!("not opened: {error}"));
            return one_line(&error.to_string());
        }
    };
    let machine = reader.machine().clone();
    let planner = |system: System| Planner::new(&machine, system.settings());
    let mut planners = System::ALL.map(planner);
    for facts in reader.by_ref() {
        let facts = match facts {
            Ok(facts) => facts,
            Err(error) => {
                observed.record(&error.to_string());
                return one_line(&error.to_string());
            }
        };
        observed.record("a window");
        for planner in &mut planners {
            planner.decide(&machine, &facts);
        }
    }
    let warning = reader.warning().unwrap_or_else(|| "finished".to_owned());
    observed.record(&warning);
    one_line(&warning)
}
