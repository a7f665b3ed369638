//! The figures of the NThread paper on an emulated machine: fio, RocksDB and filebench's
//! personalities, unmodified, on baselines and on NThread's four configurations.
//!
//! Every run has a fresh volume in memory. Data is prepared with emulated timing off; then the
//! program runs with it on, a steward moves its threads (or nobody does), and throughput is what
//! the program itself reports, on the machine's own clock. What each figure does, how it is
//! scaled and what is emulated: `docs/explanation/nthread-figures.md`.

mod figure;
mod fio;
mod goals;
mod mover;
mod options;
mod page;
mod paper;
mod plan;
mod prepare;
mod program;
mod quiet;
mod report;
mod rocksdb;
mod rows;
mod sample;
mod setup;
mod stage;

pub use figure::Figure;
pub use goals::{Disagreement, Goal};
pub use options::NthreadOptions;
pub use plan::{Extent, FULL_BUDGET, Group, Pace, groups};
pub use program::{Benchmark, Program, Unit};
pub use report::NthreadReport;
pub use rows::{Bar, NthreadRow};
pub use sample::Moment;
pub use setup::{Allocation, Pinning, Setup};

use std::path::Path;
use std::time::Instant;

use crate::programs::host;
use egeria_harness::process;
use egeria_harness::{Error, Result};
use egeria_scratch::check_room;
use egeria_stats::statistics::MIN_SETTLED;
use plan::in_turn;
use quiet::HostUse;
use rows::Finding;
use stage::{Measurement, Stage};

/// So often at most the charts whose ratios have not settled are run again.
const MAX_MORE_REPETITIONS: usize = 4;
/// Memory that the largest run needs.
const ROOM_BYTES: u64 = 2 << 30;
/// The programs and the Debian packages that have them.
const PROGRAMS: [(&str, &str); 3] = [
    ("fio", "fio"),
    ("db_bench", "rocksdb-tools"),
    ("taskset", "util-linux"),
];

/// Runs the figures and writes the page. A run that fails does not stop the others: see
/// [`NthreadReport::failures`].
///
/// # Errors
/// When programs are missing, there is no room, the machine emulates no timing, the page cannot
/// be written, or it was interrupted.
pub fn run(options: &NthreadOptions<'_>) -> Result<NthreadReport> {
    run_groups(options, &groups(options.extent, &options.figures))
}

/// As [`run`], with groups of one's own.
///
/// # Errors
/// As [`run`].
pub fn run_groups(options: &NthreadOptions<'_>, groups: &[Group]) -> Result<NthreadReport> {
    let start = Instant::now();
    check(options)?;
    let host_use = HostUse::begin();
    let mut findings = Vec::new();
    let mut failures = Vec::new();
    let repetitions = options.repetitions.max(1);
    let mut planned = Planned::all(groups, repetitions);
    for repetition in 0..repetitions + MAX_MORE_REPETITIONS {
        if repetition >= repetitions {
            let open = rows::unsettled(&rows::bars(&findings));
            planned.add(groups, &open);
            if open.is_empty() || options.repetitions < MIN_SETTLED {
                break;
            }
        }
        for group in in_turn(groups, repetition) {
            if planned.has(group) {
                let what = label(group, group.programs[0]);
                options.watch.step(findings.len(), planned.runs, &what)?;
                findings.extend(attempt(options, group, repetition, &mut failures)?);
            }
        }
    }
    let report = NthreadReport {
        machine: host::summary(&options.machine),
        host: host::host(),
        others_share: host_use.others(),
        stalled_share: stalled_share(&findings),
        with_goals: options.extent != Extent::Demo,
        versions: versions(options),
        complete: options.extent == Extent::Full && options.figures.is_empty(),
        repetitions,
        paces: report::paces(groups),
        bars: rows::bars(&findings),
        failures,
        seconds: (start.elapsed().as_secs_f64() * 10.0).round() / 10.0,
        html: options
            .output_directory
            .as_ref()
            .map(|directory| directory.join("nthread.html")),
    };
    if let Some(html) = &report.html {
        write(html, page::page(&report).as_bytes())?;
    }
    Ok(report)
}

/// What is run in a repetition.
struct Planned {
    /// Charts to run: figure, workload and threads; `None`: all.
    charts: Option<Vec<(Figure, String, u32)>>,
    /// Runs in all, those done included.
    runs: usize,
}

impl Planned {
    fn all(groups: &[Group], repetitions: usize) -> Planned {
        let once: usize = groups.iter().map(|group| group.programs.len()).sum();
        Planned {
            charts: None,
            runs: once * repetitions,
        }
    }

    /// One more repetition of these charts only.
    fn add(&mut self, groups: &[Group], charts: &[(Figure, String, u32)]) {
        self.charts = Some(charts.to_vec());
        let again = groups.iter().filter(|group| self.has(group));
        self.runs += again.map(|group| group.programs.len()).sum::<usize>();
    }

    fn has(&self, group: &Group) -> bool {
        let is_in = |program: &Program| {
            let chart = (group.figure, program.workload(), group.threads);
            let charts = self.charts.as_ref();
            charts.is_none_or(|charts| charts.contains(&chart))
        };
        group.programs.iter().any(is_in)
    }
}

/// Share of the measured time for which the machine's clock stood still, in [0, 1].
fn stalled_share(findings: &[Finding<'_>]) -> f64 {
    let shares = findings
        .iter()
        .filter_map(|finding| finding.measurement.as_ref());
    let shares: Vec<f64> = shares
        .map(|measurement| measurement.stalled_share)
        .collect();
    shares.iter().sum::<f64>() / shares.len().max(1) as f64
}

fn check(options: &NthreadOptions<'_>) -> Result<()> {
    host::require(&PROGRAMS)?;
    if !egeria_harness::program::is_executable(&options.filebench_program) {
        let at = options.filebench_program.display();
        return Err(Error::failed(format!(
            "no program at {at}; build it (cargo build --release)"
        )));
    }
    check_room(&options.memory_directory, ROOM_BYTES, "free some")?;
    match &options.output_directory {
        Some(directory) => std::fs::create_dir_all(directory).map_err(|error| {
            let doing = format!("cannot make {}", directory.display());
            Error::io(doing, error, "choose another")
        }),
        None => Ok(()),
    }
}

/// Runs a group; what goes wrong is noted, only an interruption ends everything.
fn attempt<'a>(
    options: &NthreadOptions<'_>,
    group: &'a Group,
    repetition: usize,
    failures: &mut Vec<String>,
) -> Result<Vec<Finding<'a>>> {
    let stage = Stage::set_up(options, group).and_then(|stage| stage.prepare().map(|()| stage));
    let mut perform = |program| {
        let measured = match &stage {
            Ok(stage) => stage.perform(program),
            Err(error) => Err(Error::failed(error)),
        };
        note(measured, group, program, failures)
    };
    let mut findings = Vec::new();
    for program in &group.programs {
        process::check_cancel(options.watch.cancel)?;
        findings.push(Finding {
            repetition,
            group,
            program: *program,
            measurement: perform(*program)?,
        });
    }
    Ok(findings)
}

fn note(
    measured: Result<Measurement>,
    group: &Group,
    program: Program,
    failures: &mut Vec<String>,
) -> Result<Option<Measurement>> {
    match measured {
        Ok(measurement) => Ok(Some(measurement)),
        Err(Error::Interrupted) => Err(Error::Interrupted),
        Err(error) => {
            failures.push(format!("{}: {error}", label(group, program)));
            Ok(None)
        }
    }
}

fn label(group: &Group, program: Program) -> String {
    let (figure, workload, name) = (group.figure.name(), program.workload(), group.setup.name);
    format!("Fig. {figure} {workload} {name}")
}

fn versions(options: &NthreadOptions<'_>) -> Vec<String> {
    let all = host::versions(options.watch.cancel);
    let ours = |line: &String| line.starts_with("fio") || line.starts_with("RocksDB");
    all.into_iter().filter(ours).collect()
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    egeria_files::write(path, content).map_err(|error| {
        let doing = format!("cannot write {}", path.display());
        Error::io(doing, error, "choose another directory")
    })
}
