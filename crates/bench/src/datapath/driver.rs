//! The measurement: sets up the three subjects and takes turns.

use std::path::PathBuf;

use egeria_fs::Counters;
use tempfile::TempDir;

use super::options::DatapathOptions;
use super::plan::{self, Case, LARGEST_BLOCK_BYTES, MAX_THREADS, Operation};
use super::report::{DatapathReport, Row};
use super::setup::{Worker, find_worker};
use super::worker::{Reply, Request};
use egeria_harness::Progress;
use egeria_harness::process::check_cancel;
use egeria_harness::program::loadable;
use egeria_harness::scratch::{ScratchVolume, check_room, memory_directory};
use egeria_harness::statistics::rotated_order;
use egeria_harness::{Error, Result};

/// Least room in the pool beyond the files: logs, blocks on their way, what was freed elsewhere.
const MIN_SPARE_BYTES: u64 = 128 << 20;
/// Most bytes of a file anybody can mean.
const MAX_FILE_BYTES: u64 = 1 << 40;
/// Turns each subject has in a round: short ones meet the same disturbances from outside.
const TURNS: usize = 4;
/// Place of Egeria among the subjects.
const EGERIA: usize = 0;

pub(super) fn run(options: &DatapathOptions<'_>) -> Result<DatapathReport> {
    check(options)?;
    let mut bench = Bench::set_up(options)?;
    let cases = plan::cases();
    let mut turns = vec![Vec::new(); cases.len()];
    let total = (options.rounds * cases.len()) as u64;
    let mut done = 0;
    for index in plan::measuring_order(&cases) {
        let case = &cases[index];
        let what = what(case);
        for round in 0..options.rounds {
            (options.progress)(&Progress {
                done,
                total,
                what: &what,
            });
            for turn in 0..TURNS {
                turns[index].push(bench.turn(case, round * TURNS + turn)?);
            }
            done += 1;
        }
    }
    (options.progress)(&Progress {
        done: total,
        total,
        what: "done",
    });
    Ok(DatapathReport {
        rows: cases
            .iter()
            .zip(&turns)
            .map(|(case, turns)| Row::of_turns(case, turns))
            .collect(),
        rounds: options.rounds,
        file_bytes: options.file_bytes,
    })
}

fn what(case: &Case) -> String {
    let (name, kib, threads) = (case.operation.name(), case.block_bytes >> 10, case.threads);
    format!("{name} of {kib} KiB, {threads} threads")
}

fn check(options: &DatapathOptions<'_>) -> Result<()> {
    if options.rounds == 0 || options.measurement_ms == 0 {
        return Err(Error::failed(
            "nothing to measure; ask for at least 1 round and 1 ms",
        ));
    }
    let sensible = (LARGEST_BLOCK_BYTES..=MAX_FILE_BYTES).contains(&options.file_bytes);
    if !sensible || !options.file_bytes.is_multiple_of(LARGEST_BLOCK_BYTES) {
        return Err(Error::failed(
            "files must be a multiple of 64 KiB, at most 1 TiB; choose another size",
        ));
    }
    // The pool, the files on tmpfs and what is appended there, the mapped files.
    let files = options.file_bytes * MAX_THREADS as u64;
    let need = pool_bytes(options) + 2 * files + append_bytes(options) * MAX_THREADS as u64;
    check_room(
        &options.memory_directory,
        need,
        "free some or choose smaller files",
    )
}

/// Most bytes a thread appends in one measurement.
fn append_bytes(options: &DatapathOptions<'_>) -> u64 {
    options.file_bytes / 2
}

fn pool_bytes(options: &DatapathOptions<'_>) -> u64 {
    let files = (options.file_bytes + append_bytes(options)) * MAX_THREADS as u64;
    files + options.file_bytes.max(MIN_SPARE_BYTES)
}

/// The three subjects, ready; the workers end before what they use goes.
struct Bench<'a> {
    workers: [Worker; 3],
    scratch: ScratchVolume,
    _peers: TempDir,
    options: &'a DatapathOptions<'a>,
}

impl<'a> Bench<'a> {
    fn set_up(options: &'a DatapathOptions<'a>) -> Result<Bench<'a>> {
        let program = find_worker(options.worker.as_deref())?;
        let peers = memory_directory(&options.memory_directory)?;
        let scratch =
            ScratchVolume::make(&options.memory_directory, &[0], pool_bytes(options), None)?;
        let paths = |directory: &std::path::Path, name: &str| -> Vec<PathBuf> {
            (0..MAX_THREADS)
                .map(|thread| directory.join(format!("{name}{thread}")))
                .collect()
        };
        let start = |name, kind, paths: &[PathBuf], preload| {
            Worker::start(&program, name, kind, options.file_bytes, paths, preload)
        };
        let library = loadable(&options.preload_library, peers.path())?;
        let workers = [
            start(
                "Egeria",
                "files",
                &paths(scratch.mount_directory(), "data"),
                Some(&library),
            )?,
            start("tmpfs", "files", &paths(peers.path(), "data"), None)?,
            start("memcpy", "memory", &paths(peers.path(), "mapped"), None)?,
        ];
        let mut bench = Bench {
            workers,
            scratch,
            _peers: peers,
            options,
        };
        bench.prepare()?;
        Ok(bench)
    }

    fn prepare(&mut self) -> Result<()> {
        let cancel = self.options.cancel;
        for worker in &mut self.workers {
            (self.options.progress)(&Progress {
                done: 0,
                total: 1,
                what: "preparing the files",
            });
            worker.ask(&Request::Prepare, cancel)?;
        }
        let mut prefaulted = 0;
        for path in self.scratch.pool_paths() {
            let request = Request::Prefault {
                path: path.to_owned(),
            };
            if let Reply::Ready { prefaulted_bytes } = self.workers[EGERIA].ask(&request, cancel)? {
                prefaulted += prefaulted_bytes;
            }
        }
        if prefaulted == 0 {
            return Err(not_direct("the worker never mapped the pool"));
        }
        Ok(())
    }

    /// One case on all subjects: calls per second of Egeria, tmpfs and the bare copy.
    fn turn(&mut self, case: &Case, turn: usize) -> Result<[f64; 3]> {
        let mut ops_s = [0.0; 3];
        for subject in rotated_order(ops_s.len(), turn) {
            check_cancel(self.options.cancel)?;
            ops_s[subject] = self.measure(case, turn, subject)?;
        }
        Ok(ops_s)
    }

    fn measure(&mut self, case: &Case, turn: usize, subject: usize) -> Result<f64> {
        let request = Request::Measure {
            operation: case.operation,
            block_bytes: case.block_bytes,
            threads: case.threads,
            seed: turn as u64 + 1,
            milliseconds: self.options.measurement_ms.div_ceil(TURNS as u64),
            append_bytes: append_bytes(self.options),
        };
        let before = self.scratch.volume().counters();
        let reply = self.workers[subject].ask(&request, self.options.cancel)?;
        let Reply::Measured {
            calls,
            warm_calls,
            ops_s,
        } = reply
        else {
            return Err(Error::failed(
                "a worker answered something else than it was asked; build it again",
            ));
        };
        if subject == EGERIA {
            served_directly(
                &before,
                &self.scratch.volume().counters(),
                calls + warm_calls,
                case.operation,
            )?;
        }
        Ok(ops_s)
    }
}

/// Fails unless the session counted all these calls as served by the preload library itself.
fn served_directly(
    before: &Counters,
    after: &Counters,
    calls: u64,
    operation: Operation,
) -> Result<()> {
    let direct = after.direct_calls.saturating_sub(before.direct_calls);
    if direct >= calls {
        return Ok(());
    }
    let passed = after.passed_calls.saturating_sub(before.passed_calls);
    let name = operation.name();
    Err(not_direct(&format!(
        "{name}: of {calls} calls {direct} were served directly, {passed} passed to the kernel"
    )))
}

fn not_direct(how: &str) -> Error {
    Error::failed(format!(
        "the preload library did not serve the calls itself ({how}); unset EGERIA_PRELOAD and EGERIA_BYPASS, and is the library of this build?"
    ))
}
