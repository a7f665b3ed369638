//! `egeria-torture crash`: stop the machine everywhere, recover, compare.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use egeria_torture::crash::{self, CrashOptions, CrashReport};

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;

/// Arguments of `egeria-torture crash`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-torture crash
  egeria-torture crash --quick --json
  egeria-torture crash --only pools,snapshots
  egeria-torture crash --replay crash-cases/crash-1.json

Runs all short sequences of file operations on small volumes in memory, stops
the machine at every store and fence, forms what persistent memory may hold
then, recovers, and compares. A state in which something is wrong is saved.
JSON: states, unique_images, workloads, violations, seconds, details.
Exit status: 1 when something is wrong.")]
pub struct Arguments {
    /// A part of the plan that takes seconds, not minutes
    #[arg(long)]
    quick: bool,
    /// Only these parts, with more states
    #[arg(long, value_name = "PART,...", value_delimiter = ',', conflicts_with_all = ["quick", "delegated"])]
    only: Vec<Part>,
    /// Have all accesses of striped files made by delegates; only what runs on several pools
    #[arg(long)]
    delegated: bool,
    /// End after so many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// End after so many states
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    states: Option<u64>,
    /// Decides samples and random sequences
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory for cases, made when there is one
    #[arg(long, value_name = "DIR", default_value = "crash-cases")]
    out: PathBuf,
    /// Look at a saved case again, and tell in words what goes wrong
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "only", "delegated", "seconds", "states", "seed", "out"])]
    replay: Option<PathBuf>,
}

/// A part of the plan that can be explored alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Directories with limits
    Limits,
    /// Adding, draining and removing pools; upgrades
    Pools,
    /// Operations while a snapshot is under way
    Snapshots,
}

impl Part {
    fn of_plan(self) -> crash::Part {
        match self {
            Part::Limits => crash::Part::Limits,
            Part::Pools => crash::Part::Pools,
            Part::Snapshots => crash::Part::Snapshots,
        }
    }
}

/// Explores, or looks at a case again.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    match &arguments.replay {
        Some(file) => {
            crate::result::show_replay(&crash::replay(file).map_err(Failure::new)?, format)
        }
        None => explore(arguments, format),
    }
}

fn explore(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let signals = Signals::install()?;
    let progress = Progress::bar("exploring");
    let tell =
        |step: &egeria_harness::Progress<'_>| progress.step(step.done, step.total, step.what);
    let options = CrashOptions {
        quick: arguments.quick,
        only: arguments.only.iter().map(|part| part.of_plan()).collect(),
        delegated: arguments.delegated,
        limit: arguments.seconds.map(Duration::from_secs),
        states: arguments.states,
        seed: arguments.seed,
        output_directory: Some(arguments.out.clone()),
        cancel: Some(signals.stop_flag()),
        progress: &tell,
        ..CrashOptions::default()
    };
    let report = crash::run(&options).map_err(Failure::new)?;
    drop(progress);
    format.print(&report, CrashReport::text)?;
    // What was found before a signal came is told; the status still says that it came.
    signals.check()?;
    Ok(crate::result::status(report.violations > 0))
}
