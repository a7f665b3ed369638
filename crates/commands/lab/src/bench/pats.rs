//! `egeria-lab bench pats`: the figures of the PATS paper, on emulated machines.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use egeria_bench::pats::{self, PatsOptions, PatsReport};

use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};
use egeria_cli::preload;
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;

/// Arguments of `egeria-lab bench pats`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench pats
  egeria-lab bench pats --figure 12 --rounds 1
  egeria-lab bench pats --json | jq '.summary'

Real fio on persistent memory and real fio on DRAM (a copy of 256 KiB blocks, or
gets and sets of 1 KiB) of one emulated socket, without control, with the limits
that a steward sets by PATS's formula, and with learned ones. Takes about 15
minutes with five rounds. JSON: summary (dram_of_alone,
dram_of_alone_uncontrolled, pm_gain, fairness: at 14 threads of 4 KiB;
learned_of_formula (dram, pm, both): the least of all points), emulated, rows
(figure, machine, control, tolerated_loss, threads, request_bytes, read_share,
dram_load, dram_bytes_s, dram_of_alone, pm_bytes_s, pm_gain, fairness, limit).
Needs the Debian packages fio and fuse3: `make setup`.")]
pub struct Arguments {
    /// Rounds to take medians over
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// Only this figure of the paper: 3, 4, 5, 10, 12 (with 1), 13 or 14
    #[arg(long, value_name = "N", value_parser = ["3", "4", "5", "10", "12", "13", "14"])]
    figure: Option<String>,
    /// How long each point is measured, ms of host time
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(100..=600_000))]
    measured: u32,
    /// Write a page here
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Directory on tmpfs for pools
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let library = preload::require()?;
    let signals = Signals::install()?;
    let progress = Progress::bar("preparing");
    let tell = |step: &egeria_bench::Progress<'_>| progress.step(step.done, step.total, step.what);
    let options = PatsOptions {
        memory_directory: arguments.memory.clone(),
        figure: arguments.figure.clone(),
        rounds: arguments.rounds.into(),
        measured: Duration::from_millis(arguments.measured.into()),
        cancel: Some(signals.stop_flag()),
        progress: &tell,
        ..PatsOptions::new(library)
    };
    let report = pats::run(&options).map_err(|error| signals.or_failure(error))?;
    drop(progress);
    if let Some(path) = &arguments.report {
        output::write_page(path, &report.page())?;
    }
    format.print(&report, PatsReport::table)
}
