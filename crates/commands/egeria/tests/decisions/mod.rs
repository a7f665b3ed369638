//! Decision logs as a steward writes them, for tests that read them.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use egeria_facts::ThreadKey;
use egeria_machine::NodeId;
use egeria_policy::{
    Action, ActionOutcome, ActionRecord, ActionResult, Contention, Expectation, Kept, KeptBecause,
    Measure, Move, Reason,
};
use egeria_steward::{
    ActionLine, NodeRecord, Record, ResultLine, ThreadRecord, ThreadResult, WindowRecord,
};

/// Window of these logs, ns.
pub const WINDOW_NS: u64 = 100_000_000;

/// A thread of process 4700.
pub fn thread(thread_id: u32) -> ThreadKey {
    ThreadKey {
        process_id: 4700,
        thread_id,
        start_ticks: u64::from(thread_id),
    }
}

/// A steward of this process began just now, on an emulated machine.
pub fn start(process_id: u32) -> Record {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Record::Start {
        steward: process_id,
        volume: Some("4f5e".to_owned()),
        machine: "optane-2s".to_owned(),
        emulated: true,
        policy: "full".to_owned(),
        unavailable: Vec::new(),
        off: Vec::new(),
        sources: Vec::new(),
        settings: Box::default(),
        window_ns: WINDOW_NS,
        time_unix_ns: now.as_nanos() as u64,
    }
}

/// It stopped.
pub fn stop() -> Record {
    Record::Stop {
        restored: 2,
        windows: 5,
        actions: 1,
    }
}

/// A window of two nodes, the first with a memory bandwidth of 2 GB/s; threads, actions … may be added.
pub fn window(number: u64) -> WindowRecord {
    let node = |node, read_bytes_s, written_bytes_s| NodeRecord {
        node: NodeId(node),
        read_bytes_s,
        written_bytes_s,
        pm_bytes_s: read_bytes_s / 3.0 + written_bytes_s,
        pm_maximum_bytes_s: Some(2e9),
        cpu_share: 0.5,
        threads: 1,
    };
    WindowRecord {
        number,
        start_ns: number * WINDOW_NS,
        duration_ns: WINDOW_NS,
        time_unix_ns: 1_000_000_000,
        local_share: Some(0.25),
        nodes: vec![node(0, 1.5e9, 0.5e9), node(1, 0.0, 0.0)],
        ..WindowRecord::default()
    }
}

/// What a thread named `fio` reads of each of two nodes.
pub fn reads(thread_id: u32, node: u16, read_bytes_s: [f64; 2]) -> ThreadRecord {
    ThreadRecord {
        thread: thread(thread_id),
        name: "fio".to_owned(),
        node: NodeId(node),
        read_bytes_s: read_bytes_s.to_vec(),
        written_bytes_s: vec![0.0, 0.0],
        cpu_share: 0.75,
        is_shared: false,
    }
}

/// A thread goes from node 1 to node 0, where its data is.
pub fn moved(thread_id: u32, outcome: ActionOutcome) -> ActionLine {
    let reason = Reason::RemoteReads {
        target: NodeId(0),
        target_bytes_s: 1.2e9,
        next_bytes_s: 0.0,
        margin_bytes_s: 200e6,
    };
    let step = Move {
        thread: thread(thread_id),
        from: NodeId(1),
        to: NodeId(0),
        reason,
    };
    line(step, outcome, 0.0, 1.0)
}

/// A migration of a thread named `fio` that should change the share of its bytes that are local.
fn line(step: Move, outcome: ActionOutcome, before: f64, expected: f64) -> ActionLine {
    ActionLine {
        sentence: step.to_string(),
        name: "fio".to_owned(),
        record: ActionRecord {
            action: Action::MigrateThread(step),
            expected: Some(Expectation {
                measure: Measure::LocalShare,
                before,
                expected,
                windows: 1,
            }),
            outcome,
        },
    }
}

/// A thread leaves node 0, whose CPUs are contended, for node 1.
pub fn sent_away(thread_id: u32) -> ActionLine {
    let reason = Reason::CpuContention {
        path_bandwidth_bytes_s: None,
        contended: NodeId(0),
        cpu_share: 1.5,
        thread_share: 0.25,
        target_share: 0.0,
        limit: 0.9,
    };
    let step = Move {
        thread: thread(thread_id),
        from: NodeId(0),
        to: NodeId(1),
        reason,
    };
    line(step, ActionOutcome::Done, 1.0, 0.1)
}

/// What came of such a move: 98 % local and 1.4 times the bytes.
pub fn result(thread_id: u32) -> ResultLine {
    let done = moved(thread_id, ActionOutcome::Done).record;
    ResultLine {
        result: ActionResult {
            action: done.action,
            expected: done.expected,
            measured: Some(0.98),
            missed: false,
        },
        thread: Some(ThreadResult {
            node: Some(NodeId(0)),
            bytes_s_before: 1.2e9,
            bytes_s_after: 1.68e9,
            local_share_before: Some(0.0),
            local_share_after: Some(0.98),
        }),
    }
}

/// A thread on node 1 stays there because its own node would be contended.
pub fn kept(thread_id: u32) -> Kept {
    Kept {
        thread: thread(thread_id),
        node: NodeId(1),
        wanted: Some(NodeId(0)),
        because: KeptBecause::HomeContended {
            contention: Contention::Cpu,
        },
    }
}

/// As lines.
pub fn lines(records: &[Record]) -> String {
    let line = |record| serde_json::to_string(record).unwrap() + "\n";
    records.iter().map(line).collect()
}

/// The window as a record.
pub fn record(decision: WindowRecord) -> Record {
    Record::Window(Box::new(decision))
}

/// A small story: 4711 reads far away, goes home and is faster there; 4712 is kept away.
pub fn story(process_id: u32) -> Vec<Record> {
    let mut first = window(122);
    first.threads = vec![reads(4711, 1, [1.2e9, 0.0]), reads(4712, 1, [3e8, 1e8])];
    first.actions = vec![moved(4711, ActionOutcome::Done)];
    first.kept = vec![kept(4712)];
    first.cpu_contended = Some(NodeId(0));
    let mut second = window(123);
    second.local_share = Some(0.9);
    second.threads = vec![reads(4711, 0, [1.6e9, 0.08e9]), reads(4712, 1, [3e8, 1e8])];
    second.results = vec![result(4711)];
    second.kept = vec![kept(4712)];
    vec![start(process_id), record(first), record(second)]
}

/// Writes a log.
pub fn write(path: &Path, records: &[Record]) -> PathBuf {
    std::fs::write(path, lines(records)).unwrap();
    path.to_owned()
}

/// A process id that nobody has.
pub fn dead_process() -> u32 {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}
