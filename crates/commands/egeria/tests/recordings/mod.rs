//! Small recordings to show and replay.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::PathBuf;

use egeria_facts::{ThreadFacts, ThreadKey, Window};
use egeria_machine::{CpuId, Machine, NodeId};
use egeria_trace::{TraceHeader, Writer};

use crate::common::Sandbox;

pub const SECOND_NS: u64 = 1_000_000_000;

/// A megabyte, as rates are given.
pub const MB: u64 = 1_000_000;

/// The testbed of NThread: two nodes of four cores, CPUs 0-3 and 4-7.
pub fn machine() -> Machine {
    let mut machine = Machine::profile("optane-2s").unwrap();
    for (index, node) in machine.nodes.iter_mut().enumerate() {
        let first = index as u16 * 4;
        node.cpus = (first..first + 4).map(CpuId).collect();
    }
    machine
}

pub fn header(policy: &str) -> TraceHeader {
    TraceHeader {
        volume: Some("6f2b7f3e-6d1c-4f8e-9a55-0c3f1d2e4b5a".parse().unwrap()),
        command: vec!["fio".to_owned(), "job.fio".to_owned()],
        policy: policy.to_owned(),
        started_unix_ns: 951_782_400 * SECOND_NS,
    }
}

/// A thread on a node, with MB/s read from each node and written on its own.
pub fn thread(number: u32, node: u16, read_mb: [u64; 2], written_mb: u64) -> ThreadFacts {
    let key = ThreadKey {
        process_id: 77,
        thread_id: number,
        start_ticks: 5,
    };
    let mut facts = ThreadFacts::idle(key, NodeId(node), 2, "0-7".parse().unwrap());
    facts.name = format!("worker-{number}");
    facts.read_bytes = read_mb.map(|read_mb| read_mb * MB).to_vec();
    facts.written_bytes[usize::from(node)] = written_mb * MB;
    facts.busy_ns = SECOND_NS / 5;
    facts
}

/// A window of one second.
pub fn window(number: u64, threads: Vec<ThreadFacts>) -> Window {
    let start_ns = (10 + number) * SECOND_NS;
    let mut window = Window::empty(&machine(), number, start_ns, SECOND_NS);
    window.threads = threads;
    window
}

/// So many windows of the same threads.
pub fn steady(count: u64, threads: &[ThreadFacts]) -> Vec<Window> {
    let same = |number| window(number, threads.to_vec());
    (0..count).map(same).collect()
}

/// Four threads on node 1 that read from node 0.
pub fn remote_readers() -> Vec<ThreadFacts> {
    let reader = |number| thread(number, 1, [500, 0], 0);
    (1..=4).map(reader).collect()
}

/// A finished recording of these windows.
pub fn record(sandbox: &Sandbox, policy: &str, windows: &[Window]) -> PathBuf {
    let path = sandbox.path("trace");
    let mut writer = Writer::create(&path, &machine(), &header(policy)).unwrap();
    for window in windows {
        writer.append(&window.clone().into()).unwrap();
    }
    writer.finish().unwrap();
    path
}

/// Traces that cannot be read: arguments that name them, and words of the line about each.
pub fn unreadable(sandbox: &Sandbox) -> Vec<(PathBuf, [&'static str; 2])> {
    let whole = record(sandbox, "off", &steady(3, &remote_readers()));
    let bytes = std::fs::read(&whole).unwrap();
    let holding = |name: &str, bytes: &[u8]| {
        let path = sandbox.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let mut damaged = bytes.clone();
    let last = damaged.len() - 20;
    damaged[last] ^= 1;
    let mut newer = bytes.clone();
    newer[8] = 9;
    vec![
        (sandbox.path("none"), ["none", "check the path"]),
        (
            sandbox.directory("folder"),
            ["folder is a directory", "name a file"],
        ),
        ("/dev/zero".into(), ["/dev/zero is a device", "name a file"]),
        (holding("empty", b""), ["empty is empty", "record again"]),
        (
            holding("other", b"#!/bin/sh\n"),
            ["other is no trace", "name a file"],
        ),
        (
            holding("newer", &newer),
            ["version 9", "the egeria that recorded it"],
        ),
        (
            holding("header", &bytes[..200]),
            ["cut within its header", "record again"],
        ),
        (
            holding("damaged", &damaged),
            ["damaged after 2 windows", "checksum"],
        ),
    ]
}

/// The first windows of a recording whose recorder was killed in the middle of the next.
pub fn cut(sandbox: &Sandbox, windows: &[Window]) -> PathBuf {
    let path = record(sandbox, "off", windows);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 14 - 5]).unwrap();
    path
}
