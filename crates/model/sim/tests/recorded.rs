//! Recordings as workloads.

use crate::common;
use common::*;
use egeria_facts::{FileKey, FileUse, ThreadFacts, ThreadKey, Window};
use egeria_machine::{AccessKind, NodeId};
use egeria_policy::planner::System;
use egeria_sim::{SimError, Workload};
use proptest::prelude::*;

const LENGTH_NS: u64 = 1_000_000_000;

/// A thread of node 0 that moved so much in a second, in `busy_ns`.
fn thread(number: u32, read: [u64; 2], written: u64, busy_ns: u64, file: u64) -> ThreadFacts {
    let key = ThreadKey {
        process_id: 7,
        thread_id: number,
        start_ticks: 1,
    };
    let file = FileUse {
        file: FileKey {
            volume: 0,
            inode: file,
        },
        read_bytes: read.iter().sum(),
        written_bytes: written,
    };
    ThreadFacts {
        read_bytes: read.to_vec(),
        written_bytes: vec![written, 0],
        busy_ns,
        files: vec![file],
        ..ThreadFacts::idle(key, NodeId(0), 2, "0-3".parse().unwrap())
    }
}

fn windows(each: Vec<Vec<ThreadFacts>>) -> Vec<Window> {
    let window = |(number, threads)| {
        let number = number as u64;
        let mut window = Window::empty(&optane(), number, number * LENGTH_NS, LENGTH_NS);
        window.threads = threads;
        window
    };
    each.into_iter().enumerate().map(window).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Where nobody is in the way, a thread does again what it did, window by window.
    #[test]
    fn a_recording_done_again_takes_as_long(
        loads in prop::collection::vec((1u64..200_000, 0.0f64..=1.0, 1.0f64..1.5), 1..6),
        request_bytes in prop::sample::select(vec![512u64, 4096, 65536]),
    ) {
        let speed = plain(4);
        let machine = machine(2, &speed);
        let mut did = Vec::new();
        let mut each = Vec::new();
        for (operations, read_share, more) in loads {
            let time_ns = |kind| speed.undisturbed_ns(request_bytes, kind, false, 1);
            let reads = (operations as f64 * read_share).round();
            let writes = operations as f64 - reads;
            let access_ns = reads * time_ns(AccessKind::Read) + writes * time_ns(AccessKind::Write);
            // As many as fit in the window with what is computed between.
            let fit = (0.9e9 / (access_ns * more)).min(1.0);
            let (reads, writes) = ((reads * fit).floor() as u64, (writes * fit).floor() as u64);
            let (read, written) = (reads * request_bytes, writes * request_bytes);
            prop_assume!(read + written >= 100 * request_bytes);
            let busy_ns = (access_ns * fit * more) as u64;
            each.push(vec![thread(1, [read, 0], written, busy_ns, 9)]);
            did.push((read, written));
        }
        let workload = Workload::recorded("again", &machine, &windows(each), request_bytes).unwrap();
        let outcome = egeria_sim::run(&machine, &workload, &options(System::Off)).unwrap();
        prop_assert_eq!(outcome.windows.len(), did.len());
        for (window, (read, written)) in outcome.windows.iter().zip(did) {
            let found = window.nodes[0].read_bytes_s + window.nodes[1].read_bytes_s;
            let all = (read + written) as f64;
            prop_assert!((found - read as f64).abs() <= all * 0.02 + 1.0, "{found} for {read}");
            let found = window.nodes[0].written_bytes_s;
            prop_assert!((found - written as f64).abs() <= all * 0.02 + 1.0, "{found} for {written}");
        }
    }
}

#[test]
fn who_used_the_same_file_shares_it() {
    let threads = vec![
        thread(1, [400_000_000, 0], 0, 300_000_000, 5),
        thread(2, [400_000_000, 0], 0, 300_000_000, 5),
        thread(3, [0, 400_000_000], 0, 300_000_000, 6),
    ];
    let workload = Workload::recorded("some", &optane(), &windows(vec![threads; 3]), 4096).unwrap();
    let files: Vec<&str> = workload.threads.iter().map(|group| &*group.files).collect();
    assert_eq!(files, ["0:5", "0:5", "0:6"]);
    let nodes: Vec<&[NodeId]> = workload.files.iter().map(|files| &*files.nodes).collect();
    assert_eq!(nodes, [&[NodeId(0)], &[NodeId(1)]]);
    // Where they read from is where they go.
    let outcome = egeria_sim::run(&optane(), &workload, &options(System::Rl)).unwrap();
    assert_eq!(outcome.moves, 1);
}

#[test]
fn a_long_recording_has_no_more_phases_than_a_workload_may() {
    let threads = vec![thread(1, [4_096_000, 0], 0, 10_000_000, 5)];
    let recorded = windows(vec![threads; 2500]);
    let workload = Workload::recorded("long", &optane(), &recorded, 4096).unwrap();
    assert!(workload.threads[0].phases.len() <= 1000);
    close(workload.seconds, 2500.0);
    let text = toml_of(&workload);
    assert!(Workload::from_toml(&text, "again").is_ok(), "{text}");
}

fn toml_of(workload: &Workload) -> String {
    toml::to_string(workload).unwrap()
}

#[test]
fn a_recording_of_nothing_is_no_workload() {
    for recorded in [
        Vec::new(),
        windows(vec![Vec::new()]),
        windows(vec![vec![thread(1, [0, 0], 0, 5, 5)]]),
    ] {
        let error = Workload::recorded("none.trace", &optane(), &recorded, 4096).unwrap_err();
        assert!(matches!(error, SimError::NothingRecorded { .. }));
        assert!(error.to_string().starts_with("none.trace: "));
    }
}
