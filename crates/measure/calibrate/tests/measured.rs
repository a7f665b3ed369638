//! The machine that the tests run on, measured in next to no time: shape, not speed.

use std::sync::atomic::{AtomicBool, Ordering};

use egeria_calibrate::{CalibrateError, Calibration, Options, PoolRequest, measure};
use egeria_machine::{Machine, MemoryKind, NodeId};

fn quick() -> Options {
    Options {
        seconds: 0.05,
        rounds: 1,
        ..Options::default()
    }
}

fn detected() -> Machine {
    Machine::detect().unwrap_or_else(|error| panic!("{error}"))
}

fn run(options: &Options) -> Result<Calibration, CalibrateError> {
    measure(
        &detected(),
        options,
        &AtomicBool::new(false),
        &mut |_, _, _| {},
    )
}

fn refusal(options: &Options) -> String {
    let line = run(options).expect_err("refused").to_string();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn every_pair_is_measured_and_all_figures_are_numbers() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let first = detected().nodes[0].id;
    let options = Options {
        pools: vec![PoolRequest {
            node: first,
            path: directory.path().to_owned(),
        }],
        ..quick()
    };
    let found = run(&options).unwrap_or_else(|error| panic!("{error}"));
    let kinds: Vec<MemoryKind> = found.memories.iter().map(|memory| memory.kind).collect();
    assert!(kinds.contains(&MemoryKind::Dram) && kinds.contains(&MemoryKind::Persistent));
    // A pool in DRAM is told.
    assert!(
        found
            .warnings
            .iter()
            .any(|line| line.contains("is not on DAX")),
        "{found:?}"
    );
    for stream in &found.streams {
        let figures = [
            stream.read_bytes_s,
            stream.write_bytes_s,
            stream.nontemporal_write_bytes_s,
            stream.mixed_bytes_s,
        ];
        assert!(
            figures
                .iter()
                .all(|figure| figure.is_finite() && *figure > 0.0),
            "{stream:?}"
        );
    }
    for latency in &found.latencies {
        assert!(
            latency.read_ns > 0.0 && latency.write_ns > 0.0,
            "{latency:?}"
        );
        let streams = found.streams.iter();
        let of_pair = streams.filter(|stream| {
            (stream.cpu_node, stream.memory) == (latency.cpu_node, latency.memory)
        });
        let counts: Vec<u32> = of_pair.map(|stream| stream.threads).collect();
        assert_eq!(counts[0], 1);
        assert!(
            counts.windows(2).all(|pair| pair[0] < pair[1]),
            "{counts:?}"
        );
    }
    let described = found.machine(&detected());
    let again = Machine::from_toml(&described.to_toml(), "again.toml".as_ref());
    let again = again.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.nodes, described.nodes);
    assert_eq!(again.nodes[0].hardware.memories.len(), 2);
    // Nothing is left of the pool.
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn steps_are_told_one_by_one() {
    let (stop, mut told) = (AtomicBool::new(false), Vec::new());
    let mut tell = |done, total, _: &str| told.push((done, total));
    measure(&detected(), &quick(), &stop, &mut tell).unwrap_or_else(|error| panic!("{error}"));
    let total = told.last().unwrap().1;
    let steps: Vec<(u64, u64)> = (0..total).map(|done| (done, total)).collect();
    assert_eq!(told[1..], steps);
}

#[test]
fn a_stop_ends_it_at_the_next_step() {
    let stop = AtomicBool::new(false);
    let mut steps = 0;
    let mut tell = |done, _, _: &str| {
        steps = done;
        stop.store(done == 3, Ordering::Release);
    };
    let stopped = measure(&detected(), &quick(), &stop, &mut tell);
    assert!(
        matches!(stopped, Err(CalibrateError::Stopped)),
        "{stopped:?}"
    );
    assert_eq!(steps, 3);
    let before = measure(
        &detected(),
        &quick(),
        &AtomicBool::new(true),
        &mut |_, _, _| {},
    );
    assert!(matches!(before, Err(CalibrateError::Stopped)));
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let with = |buffer_bytes| Options {
        buffer_bytes: Some(buffer_bytes),
        ..quick()
    };
    assert!(refusal(&with(1 << 50)).contains("free some, or use a smaller buffer"));
    assert!(refusal(&with(4096)).contains("not well above the"));
    let nowhere = Options {
        pools: vec![PoolRequest {
            node: NodeId(60_000),
            path: "/dev/shm".into(),
        }],
        ..quick()
    };
    assert!(refusal(&nowhere).contains("no node 60000"));
    let mut untimed = Machine::profile("optane-2s").unwrap();
    untimed.emulated.as_mut().unwrap().timing = false;
    let refused = measure(
        &untimed,
        &quick(),
        &AtomicBool::new(false),
        &mut |_, _, _| {},
    );
    let line = refused.unwrap_err().to_string();
    assert!(line.contains("set timing = true"), "{line}");
}
