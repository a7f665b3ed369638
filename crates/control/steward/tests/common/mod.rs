//! What tests of stewards on one volume share: the volume, its steward, and waiting.
#![allow(
    dead_code,
    reason = "every test program uses its own part of the helpers"
)]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use egeria_engine::*;
use egeria_machine::Machine;
use egeria_policy::ActionOutcome;
use egeria_policy::planner::System;
use egeria_steward::{LogReader, Record, Scope, Steward, StewardOptions, Target};

pub const PATIENCE: Duration = Duration::from_secs(60);
/// ns of machine time: 80 ms here.
pub const WINDOW_NS: u64 = 5_000_000;

pub fn emulated() -> Machine {
    Machine::profile("optane-2s").unwrap()
}

/// A volume of two pools in this folder, attached on the emulated machine.
pub fn new_volume(folder: &Path, allocation: Option<AllocationPolicy>) -> Arc<Volume> {
    let pool = |node: u16| PoolRequest {
        node,
        path: folder.join(format!("pool{node}")),
        bytes: Some(64 << 20),
    };
    create_volume(&[pool(0), pool(1)], &CreateOptions::default()).unwrap();
    let options = AttachOptions {
        machine: Some(emulated()),
        allocation,
        ..AttachOptions::default()
    };
    Volume::attach(&folder.join("pool0"), AttachMode::CreateOrJoin, &options).unwrap()
}

/// Options of a steward on the emulated machine, with its decision log in this folder.
pub fn options(policy: System, folder: &Path) -> StewardOptions {
    StewardOptions {
        policy: policy.to_string(),
        settings: policy.settings(),
        given: Vec::new(),
        window_ns: WINDOW_NS,
        machine: emulated(),
        scope: Scope::All,
        memory_source: None,
        measure_idle_pools: false,
        record: None,
        decision_log: Some(folder.join("decisions.jsonl")),
    }
}

pub fn start(policy: System, volume: &Arc<Volume>, folder: &Path) -> Steward {
    let target = Target::Volume(Arc::clone(volume));
    Steward::start(target, options(policy, folder)).unwrap()
}

/// Runs `body` while that many threads do `work` again and again. They also end when `body` panics.
pub fn while_working(threads: usize, work: impl Fn(usize) + Sync, body: impl FnOnce()) {
    let (work, is_over) = (&work, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    work(thread);
                }
            });
        }
        let outcome = catch_unwind(AssertUnwindSafe(body));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    });
}

pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// All records of the decision log in this folder.
pub fn records(folder: &Path) -> Vec<Record> {
    let mut reader = LogReader::open(&folder.join("decisions.jsonl")).unwrap();
    std::iter::from_fn(|| reader.next_record().unwrap()).collect()
}

/// What was tried: the sentence, and what came of it.
pub fn actions(folder: &Path) -> Vec<(String, ActionOutcome)> {
    let windows = records(folder)
        .into_iter()
        .filter_map(|record| match record {
            Record::Window(window) => Some(window.actions),
            _ => None,
        });
    windows
        .flatten()
        .map(|line| (line.sentence, line.record.outcome))
        .collect()
}
