//! `egeria-lab bench relocation`: what moving files gives beyond moving threads.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use egeria_bench::relocation::{self, RelocationOptions, RelocationReport};

use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};
use egeria_cli::preload;
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;

/// Arguments of `egeria-lab bench relocation`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench relocation
  egeria-lab bench relocation --rounds 1
  egeria-lab bench relocation --json | jq '.summary.of_nthread'

Real fio, 32 readers of files that all lie on one of two emulated nodes: nobody
acts, NThread moves threads, and the policy `all` moves files as well. Takes
about four minutes with five rounds. JSON: summary (of_nthread), emulated, rows
(policy, bytes_s, of_nthread, moved_bytes, thread_moves).
Needs the Debian packages fio and fuse3: `make setup`.")]
pub struct Arguments {
    /// Rounds to take medians over
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// How long each point is measured, ms of host time
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(100..=600_000))]
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
    let options = RelocationOptions {
        memory_directory: arguments.memory.clone(),
        rounds: arguments.rounds.into(),
        measured: Duration::from_millis(arguments.measured.into()),
        cancel: Some(signals.stop_flag()),
        progress: &tell,
        ..RelocationOptions::new(library)
    };
    let report = relocation::run(&options).map_err(|error| signals.or_failure(error))?;
    drop(progress);
    if let Some(path) = &arguments.report {
        output::write_page(path, &report.page())?;
    }
    format.print(&report, RelocationReport::table)
}
