//! Machines, windows and recordings to test with.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};

use egeria_facts::{CpuSet, Facts, FileKey, FileUse, ThreadFacts, ThreadKey, Window};
use egeria_machine::{Machine, NodeId};
use egeria_trace::{Reader, TraceError, TraceHeader, Writer};
use tempfile::TempDir;

/// A window's length, ns.
pub const SECOND_NS: u64 = 1_000_000_000;

/// A machine of so many nodes with two CPUs each.
pub fn machine(nodes: usize) -> Machine {
    let node = |id| {
        let (first, last) = (2 * id, 2 * id + 1);
        format!("[[nodes]]\nid = {id}\ncpus = \"{first}-{last}\"\n")
    };
    let tables: String = (0..nodes).map(node).collect();
    let text = format!("name = \"test\"\n{tables}");
    Machine::from_toml(&text, Path::new("test.toml")).unwrap()
}

/// A header that says something in every field.
pub fn header() -> TraceHeader {
    TraceHeader {
        volume: Some("6f2b7f3e-6d1c-4f8e-9a55-0c3f1d2e4b5a".parse().unwrap()),
        command: vec!["fio".to_owned(), "--name=ü x".to_owned()],
        policy: "full".to_owned(),
        started_unix_ns: 1_790_000_000_123_456_789,
    }
}

pub fn key(number: u32) -> ThreadKey {
    ThreadKey {
        process_id: 100 + number / 4,
        thread_id: 100 + number,
        start_ticks: 1_000_000 + u64::from(number),
    }
}

pub fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// A thread on node 0 that reads and writes there.
pub fn thread(machine: &Machine, number: u32, read_bytes: u64, written_bytes: u64) -> ThreadFacts {
    let mut facts = ThreadFacts::idle(key(number), NodeId(0), machine.nodes.len(), cpus("0-3"));
    facts.name = format!("worker-{number}");
    facts.read_bytes[0] = read_bytes;
    facts.written_bytes[0] = written_bytes;
    facts.busy_ns = SECOND_NS / 2;
    facts
}

pub fn file_use(inode: u64) -> FileUse {
    FileUse {
        file: FileKey { volume: 0, inode },
        read_bytes: 3 << 20,
        written_bytes: 0,
    }
}

/// A window of these threads.
pub fn window(machine: &Machine, number: u64, threads: Vec<ThreadFacts>) -> Window {
    let mut window = Window::empty(machine, number, number * SECOND_NS, SECOND_NS);
    window.nodes[0].read_bytes = threads.iter().map(ThreadFacts::read_total).sum();
    window.threads = threads;
    window
}

/// Some windows that use everything the format has.
pub fn varied(machine: &Machine) -> Vec<Window> {
    let last = machine.nodes.last().unwrap().id;
    let varied = |number: u64| {
        let make = |index: u32| thread(machine, index, u64::from(index) << 24, number << 20);
        let mut threads: Vec<ThreadFacts> = (number as u32..number as u32 + 5).map(make).collect();
        threads[1].files = vec![file_use(7), file_use(1 << 40)];
        threads[1].is_shared = true;
        threads[2].node = last;
        threads[3].pinned = number.is_multiple_of(2);
        threads[3].allowed_cpus = cpus("1,3");
        threads[4] = ThreadFacts::idle(key(90), last, machine.nodes.len(), CpuSet::empty());
        let mut window = window(machine, number, threads);
        window.nodes.last_mut().unwrap().has_pool = false;
        window
    };
    (0..4).map(varied).collect()
}

pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let builder = &mut tempfile::Builder::new();
        let directory = builder.prefix("egeria-test-trace-").tempdir_in("/dev/shm");
        Place {
            directory: directory.unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A finished recording of these windows.
    pub fn recorded(&self, machine: &Machine, windows: &[impl Clone + Into<Facts>]) -> PathBuf {
        let path = self.path("trace");
        let mut writer = Writer::create(&path, machine, &header()).unwrap();
        for window in windows {
            writer.append(&window.clone().into()).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    /// A file of these bytes.
    pub fn holding(&self, bytes: &[u8]) -> PathBuf {
        let path = self.path("bytes");
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// Everything in a recording, and the warning.
pub fn read(path: &Path) -> Result<(Vec<Window>, Option<String>), TraceError> {
    let mut reader = Reader::open(path)?;
    let windows = reader
        .by_ref()
        .map(|facts| facts.map(|facts| facts.window))
        .collect::<Result<Vec<Window>, TraceError>>()?;
    Ok((windows, reader.warning()))
}

/// The error of reading this, which is one line with cause and hint.
#[track_caller]
pub fn refused(path: &Path, words: &[&str]) {
    let error = read(path).expect_err("it was read").to_string();
    assert!(!error.contains('\n') && error.contains("; "), "{error:?}");
    for word in words {
        assert!(error.contains(word), "{word:?} is not in {error:?}");
    }
}

/// Bytes before the first frame.
pub const START_BYTES: usize = 12;
/// The kind of a window's frame.
pub const WINDOW: u8 = 2;

/// The payloads of the frames of a trace, as docs/reference/trace.md describes them.
pub fn payloads(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut rest, mut payloads) = (&bytes[START_BYTES..], Vec::new());
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        payloads.push(rest[12..12 + length].to_vec());
        rest = &rest[12 + length..];
    }
    payloads
}

/// The payloads with each window expanded: its kind, then postcard.
pub fn contents(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut last: Vec<u8> = Vec::new();
    let mut expanded = |payload: Vec<u8>| {
        if payload[0] != WINDOW {
            return payload;
        }
        let word = |at: usize| u32::from_le_bytes(payload[at..at + 4].try_into().unwrap()) as usize;
        let (length, mut at, mut bytes) = (word(1), 5, Vec::new());
        while bytes.len() < length {
            let block = &payload[at + 4..at + 4 + word(at)];
            let end = last.len().min(bytes.len() + (40 << 10));
            let dictionary = &last[bytes.len().saturating_sub(8 << 10).min(end)..end];
            let part = lz4_flex::block::decompress_with_dict(block, 32 << 10, dictionary);
            bytes.extend(part.unwrap());
            at += 4 + block.len();
        }
        last = bytes;
        [&[WINDOW], &last[..]].concat()
    };
    payloads(bytes).into_iter().map(&mut expanded).collect()
}

/// A trace of these contents: each window is compressed on its own.
pub fn packed(contents: &[Vec<u8>]) -> Vec<u8> {
    let pack = |content: &Vec<u8>| match content.split_first() {
        Some((&WINDOW, bytes)) => {
            let mut payload = vec![WINDOW];
            payload.extend((bytes.len() as u32).to_le_bytes());
            for part in bytes.chunks(32 << 10) {
                let block = lz4_flex::block::compress(part);
                payload.extend((block.len() as u32).to_le_bytes());
                payload.extend(block);
            }
            payload
        }
        _ => content.clone(),
    };
    sealed(&contents.iter().map(pack).collect::<Vec<_>>())
}

/// A trace of these payloads, with right checksums whatever they hold.
pub fn sealed(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"\x89EGERIA\n".to_vec();
    bytes.extend([7, 0, 0, 0]);
    for (number, payload) in payloads.iter().enumerate() {
        let (length, sum) = (payload.len() as u32, checksum(number, payload));
        let mut head = [length.to_le_bytes(), sum.to_le_bytes()].concat();
        head.extend(checksum(number, &head).to_le_bytes());
        bytes.append(&mut head);
        bytes.extend(payload);
    }
    bytes
}

pub fn checksum(number: usize, bytes: &[u8]) -> u32 {
    crc32c::crc32c(&[&(number as u64).to_le_bytes(), bytes].concat())
}
