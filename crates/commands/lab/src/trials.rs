//! `egeria-lab trials`: how often `egeria trial` is right.

use clap::Args;
use egeria_bench::trials::{self, TrialsOptions, TrialsReport};
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

use crate::aims::Aims;
use crate::bench::shared::measured;

/// Arguments of `egeria-lab trials`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab trials
  egeria-lab trials --simulated 200 --real 0 --json

Simulated programs of a known truth, with noise of eight shapes, and real
commands on this host: against themselves, and with a tenth more or less to do.
Counts how often the answer of the loop behind `egeria trial` is right.

JSON: false_alarms_of_100, found_of_100, covered_of_100, aims (what, figure,
aim, at_most, met), simulated (shape, noise, truth, trials, better, worse,
no_difference, not_known, covered, pairs), rows (program, kind, truth, answer,
low, high, pairs, minutes, right).")]
pub struct Arguments {
    /// Simulated trials of each shape of noise and each truth
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    simulated: u32,
    /// Real trials of each command and each truth
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(0..=1000))]
    real: u16,
    /// Most pairs of each trial
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(8..=500))]
    pairs: u16,
    /// Fixes the order of the runs of real trials
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    aims: Aims,
}

/// Simulates, runs and prints.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let report = measured(|watch| {
        trials::run(&TrialsOptions {
            simulated: arguments.simulated as usize,
            real: usize::from(arguments.real),
            pairs: usize::from(arguments.pairs),
            seed: arguments.seed,
            watch,
        })
    })?;
    format.print(&report, TrialsReport::table)?;
    arguments.aims.end(&report.aims)
}
