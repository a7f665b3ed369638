//! `egeria-torture fuzz`: inputs that somebody forged, and everything done with them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use egeria_torture::fuzz::{self, FuzzOptions, FuzzReport, Target};

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;

/// Arguments of `egeria-torture fuzz`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-torture fuzz
  egeria-torture fuzz --target image --runs 20000 --json
  egeria-torture fuzz --replay fuzz-cases/fuzz-image-1.json

Takes samples, changes them in ways that pass their checksums and in ways that
do not, and does with them whatever can be done, in processes that are watched.
Wrong are panics, deaths, more than a second of CPU time or far more memory
than the input can need, what check calls clean or repaired and is not. Inputs
in which something is wrong are saved. A whole run has 1,000,000 volumes. The
target path compares what paths mean with the kernel's tmpfs, and other-user runs
root's commands beside another user's files: both as root only.
JSON: runs, findings, seconds, details.
Exit status: 1 when something is wrong.")]
pub struct Arguments {
    /// What to fuzz, again for more [default: everything]
    #[arg(long, value_name = "TARGET", value_parser = targets())]
    target: Vec<Target>,
    /// So many inputs of each target
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// End each target after so many seconds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Decides everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory for cases, made when there is one
    #[arg(long, value_name = "DIR", default_value = "fuzz-cases")]
    out: PathBuf,
    /// Try a saved case again, and tell in words what happens
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "runs", "seconds", "seed", "out"])]
    replay: Option<PathBuf>,
}

fn targets() -> impl TypedValueParser<Value = Target> {
    PossibleValuesParser::new(Target::ALL.map(Target::name)).map(|name| {
        let mut named = Target::ALL.into_iter().filter(|each| each.name() == name);
        named.next().unwrap_or(Target::Image)
    })
}

/// Fuzzes, or looks at a case again.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    match &arguments.replay {
        Some(file) => {
            crate::result::show_replay(&fuzz::replay(file, None).map_err(Failure::new)?, format)
        }
        None => fuzz(arguments, format),
    }
}

fn fuzz(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let signals = Signals::install()?;
    let progress = Progress::bar("fuzzing");
    let tell =
        |step: &egeria_harness::Progress<'_>| progress.step(step.done, step.total, step.what);
    let chosen = arguments.target.clone();
    let options = FuzzOptions {
        targets: if chosen.is_empty() {
            Target::ALL.to_vec()
        } else {
            chosen
        },
        runs: arguments.runs,
        limit: arguments.seconds.map(Duration::from_secs),
        seed: arguments.seed,
        output_directory: Some(arguments.out.clone()),
        cancel: Some(signals.stop_flag()),
        progress: &tell,
        ..FuzzOptions::default()
    };
    let report = fuzz::run(&options).map_err(Failure::new)?;
    drop(progress);
    format.print(&report, FuzzReport::text)?;
    // What was found before a signal came is told; the status still says that it came.
    signals.check()?;
    Ok(crate::result::status(report.findings > 0))
}
