//! `egeria-lab trials`: how often `egeria trial` is right.

use clap::Args;
use egeria_bench::trials::programs::{PROGRAMS, RealProgram};
use egeria_bench::trials::{self, RealOptions, TrialsOptions, TrialsReport};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::preload::beside;

use crate::aims::Aims;
use crate::bench::shared::measured;

/// Arguments of `egeria-lab trials`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab trials
  egeria-lab trials --programs all --simulated 1 --real 0 --json
  egeria-lab trials --only sqlite --only redis
  egeria-lab trials --simulated 200 --real 0 --programs none --json

Simulated programs of a known truth, with noise of eight shapes, and real
commands on this host: against themselves, and with a tenth more or less to do.
Then real programs: fio, RocksDB, PostgreSQL, Redis, SQLite and Python, with
what makes ten of them faster, ten neither, and five slower. Their truth is
known by construction, or the median of --truth-pairs pairs, measured before the
trial, and of up to five times as many until it is known whether it is larger
than 2 %. Counts how often the answer of `egeria trial` is right. Gains of
placement are those of an emulated machine.

JSON: false_alarms_of_100, found_of_100, covered_of_100, aims (what, figure,
aim, at_most, met), simulated (shape, noise, truth, trials, better, worse,
no_difference, not_known, covered, pairs), rows (program, kind, truth,
truth_pairs, truth_low, truth_high, answer, low, high, pairs, minutes, overhead,
emulated, right), failed (program, cause).")]
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
    /// Real programs: none, a few (some minutes), or all 25 (an hour)
    #[arg(long, value_name = "none|short|all", default_value = "short", value_parser = ["none", "short", "all"])]
    programs: String,
    /// Only this of the real programs; again for more
    #[arg(long, value_name = "NAME", conflicts_with = "programs", value_parser = program)]
    only: Vec<RealProgram>,
    /// Pairs of a batch by which the truth of a real program is measured
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u16).range(8..=500))]
    truth_pairs: u16,
    /// Most batches, if the pairs of fewer leave the truth uncertain
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    truth_batches: u16,
    /// Most minutes of each trial of a real program
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=600))]
    minutes: u16,
    #[command(flatten)]
    aims: Aims,
}

fn program(text: &str) -> Result<RealProgram, String> {
    let found = PROGRAMS.iter().find(|program| program.name == text);
    found.copied().ok_or_else(|| {
        let names = PROGRAMS.map(|program| program.name);
        format!("{text:?} is none of {}", names.join(", "))
    })
}

/// Which real programs are tried, and how; `None` without any.
fn real(arguments: &Arguments) -> Outcome<Option<RealOptions>> {
    let is_chosen = |program: &&RealProgram| match arguments.programs.as_str() {
        "none" => false,
        "short" => program.is_short,
        _ => true,
    };
    let programs: Vec<RealProgram> = if arguments.only.is_empty() {
        PROGRAMS.iter().filter(is_chosen).copied().collect()
    } else {
        arguments.only.clone()
    };
    if programs.is_empty() {
        return Ok(None);
    }
    let egeria = beside("egeria").ok_or_else(|| {
        Failure::new(
            "the command egeria is not next to this program; run `make`, or choose --programs none",
        )
    })?;
    Ok(Some(RealOptions {
        egeria,
        programs,
        truth_pairs: usize::from(arguments.truth_pairs),
        truth_batches: arguments.truth_batches,
        pairs: arguments.pairs,
        minutes: u64::from(arguments.minutes),
    }))
}

/// Simulates, runs and prints.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let programs = real(arguments)?;
    let report = measured(|watch| {
        trials::run(&TrialsOptions {
            simulated: arguments.simulated as usize,
            real: usize::from(arguments.real),
            pairs: usize::from(arguments.pairs),
            seed: arguments.seed,
            programs: programs.as_ref(),
            watch,
        })
    })?;
    format.print(&report, TrialsReport::table)?;
    arguments.aims.end(&report.aims)
}
