//! Unmodified programs on a scratch volume over two nodes, beside the same programs on tmpfs:
//! fio, RocksDB, and everyday tools, timed and the data of each verified.
//!
//! fio and RocksDB run three times: on Egeria at the speed of the emulated machine (its figures are
//! in that machine's time and labelled so), on Egeria at this machine's own speed, and on tmpfs.
//! Everyday tools run at this machine's speed only: most of their calls are about names, which
//! emulated timing does not stretch, so that their emulated figures would mean nothing. Timing is off
//! while data is prepared and checked.

mod everyday;
mod fio;
mod options;
mod page;
mod report;
mod rocksdb;
mod stage;

pub use options::DemoOptions;
pub use page::page;
pub use report::{DemoReport, DemoRow, Family, MachineSummary, Throughput};

use std::path::Path;
use std::time::Instant;

use crate::emulated::EmulatedOptions;
use crate::everyday::{self as everyday_jobs, Selection, Source};
use crate::names;
use crate::programs::host;
use crate::subjects::PlacesOptions;
use crate::{odin, pats, relocation};
use egeria_harness::{Error, Result};
use stage::Stage;

/// The programs and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 7] = [
    ("fio", "fio"),
    ("db_bench", "rocksdb-tools"),
    ("sst_dump", "rocksdb-tools"),
    ("sqlite3", "sqlite3"),
    ("git", "git"),
    ("tar", "tar"),
    ("cp", "coreutils"),
];

/// Runs all programs and writes the report. A program that fails or whose data is wrong does not
/// stop the others: see [`DemoReport::failures`].
///
/// # Errors
/// When the volume, the mount or the report cannot be made, programs are missing, or it was interrupted.
pub fn run(options: &DemoOptions<'_>) -> Result<DemoReport> {
    let start = Instant::now();
    host::require(&PROGRAMS)?;
    let directory = options.output_directory.as_path();
    let failed = |error| {
        Error::io(
            format!("cannot make {}", directory.display()),
            error,
            "choose another",
        )
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let stage = Stage::set_up(options)?;
    let rows = run_all(&stage)?;
    drop(stage);
    let places = places(options);
    let names = names::run(&places, &names::Selection::quick())?;
    let jobs = everyday_jobs::run(&places, &Selection::all(Source::Made))?;
    let emulated = emulated(options);
    let report = DemoReport {
        machine: host::summary(&options.machine),
        host: host::host(),
        versions: host::versions(options.watch.cancel),
        rows,
        names: names.rows,
        jobs: jobs.rows,
        pats: figure(&emulated, |options| {
            pats::run(options, &pats::Selection::Brief)
        })?,
        odin: figure(&emulated, |options| {
            odin::run(options, &odin::Selection::Brief)
        })?,
        relocation: figure(&emulated, |options| {
            relocation::run(&EmulatedOptions {
                measured: relocation::MEASURED,
                ..options.clone()
            })
        })?,
        seconds: (start.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        html: directory.join("report.html").into(),
        json: directory.join("report.json").into(),
    };
    write(&report.html, page(&report).as_bytes())?;
    let json = serde_json::to_vec_pretty(&report).map_err(Error::failed)?;
    write(&report.json, &json)?;
    Ok(report)
}

/// What benches of names and of everyday programs are given.
fn places<'a>(options: &DemoOptions<'a>) -> PlacesOptions<'a> {
    PlacesOptions {
        rounds: if options.quick { 1 } else { 3 },
        worker: options.worker.clone(),
        loopback: options.loopback.clone(),
        memory_directory: options.memory_directory.clone(),
        watch: options.watch,
        ..PlacesOptions::new(options.preload_library.clone())
    }
}

/// What figures of emulated machines are given; a quick run leaves them out.
fn emulated<'a>(options: &DemoOptions<'a>) -> Option<EmulatedOptions<'a>> {
    (!options.quick).then(|| EmulatedOptions {
        rounds: 1,
        memory_directory: options.memory_directory.clone(),
        watch: options.watch,
        ..EmulatedOptions::new(options.preload_library.clone())
    })
}

fn figure<'a, T>(
    options: &Option<EmulatedOptions<'a>>,
    run: impl FnOnce(&EmulatedOptions<'a>) -> Result<T>,
) -> Result<Option<T>> {
    options.as_ref().map(run).transpose()
}

fn run_all(stage: &Stage<'_>) -> Result<Vec<DemoRow>> {
    let workloads = fio::workloads(stage.is_quick());
    let total = workloads.len() + rocksdb::BENCHMARKS.len() + everyday::PROGRAMS.len();
    let mut rows = Vec::new();
    for workload in &workloads {
        stage.tell(rows.len(), total, &format!("fio {}", workload.name()))?;
        rows.push(fio::run(stage, workload)?);
    }
    stage.clear(fio::DIRECTORY);
    for (benchmark, name) in rocksdb::BENCHMARKS {
        stage.tell(rows.len(), total, &format!("db_bench {benchmark}"))?;
        rows.push(rocksdb::run(stage, benchmark, name)?);
    }
    stage.clear(rocksdb::DIRECTORY);
    let sources = everyday::Sources::make(stage)?;
    for (program, (name, workload)) in everyday::PROGRAMS.iter().enumerate() {
        stage.tell(rows.len(), total, &format!("{name} {workload}"))?;
        rows.push(everyday::run(stage, &sources, program)?);
    }
    stage.tell(total, total, "done")?;
    Ok(rows)
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    let failed = |error| {
        Error::io(
            format!("cannot write {}", path.display()),
            error,
            "choose another directory",
        )
    };
    egeria_files::write(path, content).map_err(failed)
}
