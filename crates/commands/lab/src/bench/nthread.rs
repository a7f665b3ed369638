//! `egeria-lab bench nthread`: the figures of the NThread paper, on an emulated machine.

use std::path::PathBuf;

use clap::Args;
use egeria_bench::nthread::{self, Extent, Figure, NthreadOptions, NthreadReport};
use egeria_machine::Machine;

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use egeria_cli::preload;

use super::shared::measured;

/// File name of the program that does as filebench does.
const FILEBENCH: &str = "egeria-filebench";
/// Repetitions where nothing else is asked for.
const REPETITIONS: u16 = 3;

/// Arguments of `egeria-lab bench nthread`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench nthread
  egeria-lab bench nthread --figure 5a --repetitions 3
  egeria-lab bench nthread --full --json > rows.json

Real fio and db_bench, and the op loops of filebench's personalities, on an
emulated machine; baselines nova and nova_n, policies rl, cpu, nm, full and
all. Everything takes about 45 minutes, the default six. Charts whose
repetitions differ by more than 10 % are run up to four times more; rows that
differ then are named, with a warning. JSON rows: figure, workload, threads,
instances, config, throughput, vs_nova (median of the repetitions' ratios),
min_vs_nova, max_vs_nova, repetitions, settled, vs_nova_n, paper_vs_nova,
local_share, moves. Throughput is on the emulated machine's clock: fio in
bytes/s with reads weighted by 1/3, others in operations/s.
Needs the Debian packages fio, rocksdb-tools, fuse3: `make setup`.
Exit status: 1 when a run failed.")]
pub struct Arguments {
    /// Run all figures
    #[arg(long)]
    full: bool,
    /// Run this figure of the paper only (2, 4 to 9; 5a is a part of 5); may be repeated
    #[arg(long = "figure", value_name = "N", value_parser = figure)]
    figures: Vec<Chosen>,
    /// How often each run is made; figures are medians [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=99))]
    repetitions: Option<u16>,
    /// Machine file or profile that emulates timing
    #[arg(long, value_name = "FILE|PROFILE", default_value = "optane-2s")]
    machine: String,
    /// Directory for nthread.html
    #[arg(long, value_name = "DIR", default_value = "egeria-report")]
    out: PathBuf,
    /// Directory on tmpfs for pools
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

/// The figures a number means.
#[derive(Clone, Debug)]
struct Chosen(Vec<Figure>);

fn figure(text: &str) -> Result<Chosen, String> {
    match Figure::named(text) {
        figures if figures.is_empty() => {
            Err("there is no such figure here; use 2, 4, 5, 5a … 7b, 8 or 9".to_owned())
        }
        figures => Ok(Chosen(figures)),
    }
}

/// Measures, writes the page and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let machine = Machine::resolve(Some(&arguments.machine), None)?;
    let figures = arguments.figures.iter();
    let figures = figures.flat_map(|chosen| chosen.0.clone()).collect();
    let usual = NthreadOptions::new(machine, preload::require()?, filebench()?);
    let report = measured(|watch| {
        nthread::run(&NthreadOptions {
            output_directory: Some(arguments.out.clone()),
            memory_directory: arguments.memory.clone(),
            extent: if arguments.full {
                Extent::Full
            } else {
                Extent::Subset
            },
            figures,
            repetitions: arguments.repetitions.unwrap_or(REPETITIONS).into(),
            watch,
            ..usual
        })
    })?;
    format.print(&report, NthreadReport::table)?;
    verdict(&report)
}

/// An error when a run failed; a warning when figures are not to be relied on.
fn verdict(report: &NthreadReport) -> Outcome {
    if let Some(line) = report.disturbance() {
        output::complain(&line);
    }
    for failure in &report.failures {
        output::complain(failure);
    }
    match report.failures.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!(
            "{count} of the runs of NThread's figures failed; see above"
        ))),
    }
}

/// The program, next to this one or where it is installed.
pub fn filebench() -> Outcome<PathBuf> {
    preload::beside(FILEBENCH).ok_or_else(|| {
        Failure::new(format!(
            "{FILEBENCH} is neither beside this program nor in ../lib/egeria; run `make` (or `make install LAB=1`)"
        ))
    })
}
