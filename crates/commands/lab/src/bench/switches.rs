//! `egeria-lab bench switches`: what switching between more threads than cores takes.

use std::time::Duration;

use clap::Args;
use egeria_bench::switches::{self, SwitchesReport};

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

use super::shared::measured;

/// Arguments of `egeria-lab bench switches`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench switches
  egeria-lab bench switches --rounds 9 --json

Two to sixteen threads take turns on one CPU, each walking memory of its own,
beside one thread alone in the same round: what a switch takes, with fetching
again what others replaced in the caches. The model has these figures, as
measured once. Takes about fifty seconds; a busy host takes from them, too.
JSON rows: threads, working_set_bytes, of_alone, slice_ns, switch_ns.")]
pub struct Arguments {
    /// Rounds to take medians over
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// How long each is measured, ms
    #[arg(long, value_name = "MS", default_value_t = 400, value_parser = clap::value_parser!(u32).range(50..=600_000))]
    measure: u32,
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let length = Duration::from_millis(arguments.measure.into());
    let rounds = arguments.rounds.into();
    let report = measured(|watch| switches::run(rounds, length, &watch))?;
    format.print(&report, SwitchesReport::table)
}
