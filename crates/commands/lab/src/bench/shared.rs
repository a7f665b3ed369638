//! How benches are run, and what those on emulated machines share.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use clap::Args;
use egeria_bench::{EmulatedOptions, Error, PlacesOptions, Watch};
use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};
use egeria_cli::preload;
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;
use serde::Serialize;

/// Measures with a bar on the terminal, until a signal ends it.
pub fn measured<R>(run: impl FnOnce(Watch<'_>) -> Result<R, Error>) -> Outcome<R> {
    // One for all that a command measures: a signal between two measurements ends the second.
    static SIGNALS: OnceLock<Signals> = OnceLock::new();
    let signals = match SIGNALS.get() {
        Some(signals) => signals,
        None => {
            let signals = Signals::install()?;
            SIGNALS.get_or_init(|| signals)
        }
    };
    let progress = Progress::bar("preparing");
    let tell = |step: &egeria_bench::Progress<'_>| progress.step(step.done, step.total, step.what);
    let watch = Watch {
        cancel: Some(signals.stop_flag()),
        progress: &tell,
    };
    run(watch).map_err(|error| signals.or_failure(error))
}

/// What benches on emulated machines are given, each with defaults of its own.
#[derive(Args, Debug)]
#[group(skip)]
pub struct Emulated {
    /// Rounds to take medians over
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// How long each point is measured, ms of host time
    #[arg(long, value_name = "MS", default_value = "1500", value_parser = clap::value_parser!(u32).range(100..=600_000))]
    measured: u32,
    /// Write a page here
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Directory on tmpfs for pools
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

impl Emulated {
    /// Measures, writes the page and prints rows.
    pub fn run<R: Serialize>(
        &self,
        format: Format,
        run: impl FnOnce(&EmulatedOptions<'_>) -> Result<R, Error>,
        page: fn(&R) -> String,
        table: fn(&R) -> String,
    ) -> Outcome<R> {
        let library = preload::require()?;
        let report = measured(|watch| {
            run(&EmulatedOptions {
                memory_directory: self.memory.clone(),
                rounds: self.rounds.into(),
                measured: Duration::from_millis(self.measured.into()),
                watch,
                ..EmulatedOptions::new(library)
            })
        })?;
        if let Some(path) = &self.report {
            output::write_page(path, &page(&report))?;
        }
        format.print(&report, table)?;
        Ok(report)
    }
}

/// What benches on all places are given.
#[derive(Args, Debug)]
#[group(skip)]
pub struct Places {
    /// Rounds to take medians over [default: 5, --quick: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Little of it, with fewer rounds
    #[arg(long)]
    pub quick: bool,
    /// Directory on tmpfs for pools and files
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

impl Places {
    /// Measures.
    pub fn run<R>(&self, run: impl FnOnce(&PlacesOptions<'_>) -> Result<R, Error>) -> Outcome<R> {
        let library = preload::require()?;
        let usual = if self.quick { 3 } else { 5 };
        measured(|watch| {
            run(&PlacesOptions {
                rounds: self.rounds.map_or(usual, usize::from),
                memory_directory: self.memory.clone(),
                watch,
                ..PlacesOptions::new(library)
            })
        })
    }
}
