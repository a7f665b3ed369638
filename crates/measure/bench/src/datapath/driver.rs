//! The measurement: sets up the three subjects and takes turns.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use egeria_engine::{InodeNumber, XattrMode};
use tempfile::TempDir;

use super::options::DatapathOptions;
use super::plan::{self, Case, Files, LARGEST_BLOCK_BYTES, MAX_THREADS};
use super::report::{DatapathReport, Row, size};
use super::worker::{Reply, Request};
use crate::programs::worker::Worker;
use crate::served;
use egeria_harness::program::{find_beside, loadable};
use egeria_harness::{Error, Result};
use egeria_scratch::{ScratchVolume, check_room, memory_directory};

/// Name of the measured program.
const WORKER: &str = "egeria-datapath-worker";
/// How long a worker may take beyond what it was asked to: preparing writes and reads whole files.
const PATIENCE: Duration = Duration::from_secs(60);
/// Least room in the pool beyond the files: logs, blocks on their way, what was freed elsewhere.
const MIN_SPARE_BYTES: u64 = 128 << 20;
/// Most bytes of a file anybody can mean.
const MAX_FILE_BYTES: u64 = 1 << 40;
/// Turns each subject has in a round: short ones meet the same disturbances from outside.
const TURNS: usize = 4;
/// Places of the subjects among the workers.
const EGERIA: usize = 0;
/// See [`EGERIA`].
const TMPFS: usize = 1;
/// See [`EGERIA`].
const MEMCPY: usize = 2;
/// See [`EGERIA`]: files over the pools of a volume of its own.
const STRIPED: usize = 3;
/// Nodes of that volume's pools.
const STRIPED_NODES: [u16; 4] = [0, 1, 2, 3];

pub(super) fn run(options: &DatapathOptions<'_>) -> Result<DatapathReport> {
    check(options)?;
    let mut bench = Bench::set_up(options)?;
    let cases = plan::cases();
    let mut turns = vec![Vec::new(); cases.len()];
    let total = options.rounds * cases.len();
    let mut done = 0;
    for index in plan::measuring_order(&cases) {
        let case = &cases[index];
        let what = what(case);
        for round in 0..options.rounds {
            options.watch.step(done, total, &what)?;
            for turn in 0..TURNS {
                turns[index].push(bench.turn(case, round * TURNS + turn)?);
            }
            done += 1;
        }
    }
    options.watch.step(total, total, "done")?;
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
    let (name, size, threads) = (case.name(), size(case.block_bytes), case.threads);
    format!("{name} of {size}, {threads} threads")
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
            "files must be a multiple of 2 MiB, at most 1 TiB; choose another size",
        ));
    }
    // The pool, the files on tmpfs and what is appended there, the mapped files.
    let files = options.file_bytes * MAX_THREADS as u64;
    let need = 2 * pool_bytes(options) + 2 * files + append_bytes(options) * MAX_THREADS as u64;
    check_room(
        &options.memory_directory,
        need,
        "free some or choose smaller files",
    )?;
    Ok(())
}

/// Most bytes a thread appends in one measurement.
fn append_bytes(options: &DatapathOptions<'_>) -> u64 {
    options.file_bytes / 2
}

fn pool_bytes(options: &DatapathOptions<'_>) -> u64 {
    let files = (options.file_bytes + append_bytes(options)) * MAX_THREADS as u64;
    files + options.file_bytes.max(MIN_SPARE_BYTES)
}

/// The subjects, ready; the workers end before what they use goes.
struct Bench<'a> {
    workers: [Worker; 4],
    scratch: ScratchVolume,
    striped: ScratchVolume,
    _peers: TempDir,
    options: &'a DatapathOptions<'a>,
}

impl<'a> Bench<'a> {
    fn set_up(options: &'a DatapathOptions<'a>) -> Result<Bench<'a>> {
        let program = find_beside(options.worker.as_deref(), WORKER, "EGERIA_DATAPATH_WORKER")?;
        let peers = memory_directory(&options.memory_directory)?;
        let scratch =
            ScratchVolume::make(&options.memory_directory, &[0], pool_bytes(options), None)?;
        let pool_bytes = pool_bytes(options) / STRIPED_NODES.len() as u64;
        let pool_bytes = pool_bytes.next_multiple_of(1 << 20);
        let directory = &options.memory_directory;
        let striped = ScratchVolume::make(directory, &STRIPED_NODES, pool_bytes, None)?;
        let layout = (b"user.egeria.layout", b"striped");
        striped
            .volume()
            .set_xattr(InodeNumber::ROOT, layout.0, layout.1, XattrMode::Any)
            .map_err(|errno| Error::failed(format!("cannot stripe files: {errno}")))?;
        let paths = |directory: &std::path::Path, name: &str| -> Vec<PathBuf> {
            (0..MAX_THREADS)
                .map(|thread| directory.join(format!("{name}{thread}")))
                .collect()
        };
        let start = |name, kind, paths: &[PathBuf], preload: Option<&PathBuf>| {
            let mut command = Command::new(&program);
            command
                .arg(kind)
                .arg(options.file_bytes.to_string())
                .args(paths);
            command.env_remove("LD_PRELOAD");
            if let Some(library) = preload {
                command.env("LD_PRELOAD", library);
            }
            Worker::start(&mut command, name, PATIENCE)
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
            start(
                "Egeria, striped",
                "files",
                &paths(striped.mount_directory(), "data"),
                Some(&library),
            )?,
        ];
        let mut bench = Bench {
            workers,
            scratch,
            striped,
            _peers: peers,
            options,
        };
        bench.prepare()?;
        Ok(bench)
    }

    fn prepare(&mut self) -> Result<()> {
        let cancel = self.options.watch.cancel;
        for worker in &mut self.workers {
            self.options.watch.step(0, 1, "preparing the files")?;
            worker.ask::<Reply>(&Request::Prepare, cancel)?;
        }
        for (volume, worker) in [(&self.scratch, EGERIA), (&self.striped, STRIPED)] {
            for path in volume.pool_paths() {
                let request = Request::Prefault {
                    path: path.to_owned(),
                };
                match self.workers[worker].ask(&request, cancel)? {
                    Reply::Ready {
                        prefaulted_bytes: 1..,
                    } => {}
                    _ => return Err(served::not_direct("the worker never mapped the pool")),
                }
            }
        }
        Ok(())
    }

    /// One case on its subjects: calls per second of Egeria, tmpfs and the bare copy, and of striped files those of local
    /// ones.
    fn turn(&mut self, case: &Case, turn: usize) -> Result<Vec<f64>> {
        let subjects: &[usize] = match case.files {
            Files::Own | Files::One => &[EGERIA, TMPFS, MEMCPY],
            Files::Striped | Files::Shared => &[STRIPED, TMPFS, MEMCPY, EGERIA],
        };
        let watch = &self.options.watch;
        watch.in_turn(turn, subjects.len(), |place| {
            self.measure(case, turn, subjects[place])
        })
    }

    fn measure(&mut self, case: &Case, turn: usize, subject: usize) -> Result<f64> {
        let request = Request::Measure {
            operation: case.operation,
            block_bytes: case.block_bytes,
            threads: case.threads,
            files: case.files,
            seed: turn as u64 + 1,
            milliseconds: self.options.measurement_ms.div_ceil(TURNS as u64),
            append_bytes: append_bytes(self.options),
        };
        let volume = match subject {
            EGERIA => Some(&self.scratch),
            STRIPED => Some(&self.striped),
            _ => None,
        };
        let counters = || volume.map(|volume| volume.volume().counters());
        let before = counters();
        let reply = self.workers[subject].ask(&request, self.options.watch.cancel)?;
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
        if let (Some(before), Some(after)) = (before, counters()) {
            served::check(&before, &after, calls + warm_calls, &case.name())?;
        }
        Ok(ops_s)
    }
}
