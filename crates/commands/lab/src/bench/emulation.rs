//! `egeria-lab bench emulation`: programs on emulated machines, compared with what the model predicts of them.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use egeria_bench::emulation::{self, EmulationOptions, EmulationReport};

use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};
use egeria_cli::preload;
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;

/// Arguments of `egeria-lab bench emulation`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench emulation
  egeria-lab bench emulation --only DRAM --rounds 1
  egeria-lab bench emulation --json | jq '.worst'

Real fio on emulated machines, from one node to eight, beside what `egeria sim`
predicts of the same. The model is told what the programs compute between two
accesses, as measured, and nothing else. Takes about four minutes; a busy host
makes it longer. JSON: median, worst (of the errors), rows (scenario, program,
machine, nodes, threads, request_bytes, read_share, think_ns, dilation,
emulated_bytes_s, predicted_bytes_s, error).
Needs the Debian packages fio and fuse3: `make setup`.")]
pub struct Arguments {
    /// Rounds to take medians over
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// How long each is measured, ms of host time
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(100..=600_000))]
    measured: u32,
    /// Write a page here
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Directory on tmpfs for pools
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

/// Measures, predicts and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let library = preload::require()?;
    let signals = Signals::install()?;
    let progress = Progress::bar("preparing");
    let tell = |step: &egeria_bench::Progress<'_>| progress.step(step.done, step.total, step.what);
    let options = EmulationOptions {
        memory_directory: arguments.memory.clone(),
        only: arguments.only.clone(),
        rounds: arguments.rounds.into(),
        measured: Duration::from_millis(arguments.measured.into()),
        cancel: Some(signals.stop_flag()),
        progress: &tell,
        ..EmulationOptions::new(library)
    };
    let report = emulation::run(&options).map_err(|error| signals.or_failure(error))?;
    drop(progress);
    if let Some(path) = &arguments.report {
        output::write_page(path, &report.page())?;
    }
    format.print(&report, EmulationReport::table)
}
