//! `egeria-lab bench pats`: the figures of the PATS paper, on emulated machines.

use clap::Args;
use egeria_bench::pats::{self, PatsReport, Selection};
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

use super::shared::Emulated;

/// Arguments of `egeria-lab bench pats`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench pats
  egeria-lab bench pats --figure 12 --rounds 1
  egeria-lab bench pats --json | jq '.summary'

Real fio on persistent memory and real fio on DRAM (a copy of 256 KiB blocks,
gets and sets of 1 KiB, or reads of one cache line) of one emulated socket,
without control, with the limits that a steward sets by PATS's formula, and with
learned ones. Takes about half an hour with five rounds. JSON: summary
(dram_of_alone, dram_of_alone_uncontrolled, pm_gain, fairness: at 14 threads of
4 KiB; learned_of_formula (dram, pm, both): the least of all points; by_threads:
the same at 1 to 14 threads; gate (ask_ns, cpu_share)), calibrated_on,
not_reproduced (figures, because), emulated, rows (figure, machine, control,
tolerated_loss, threads, request_bytes, read_share, dram_load, dram_bytes_s,
dram_of_alone, dram_access_ns, pm_bytes_s, pm_gain, fairness, limit).
Needs the Debian packages fio and fuse3: `make setup`.")]
pub struct Arguments {
    /// Only this figure of the paper: 1, 3, 4a, 4b, 5 to 8 or 10 to 14
    #[arg(long, value_name = "N", value_parser = pats::FIGURES)]
    figure: Option<String>,
    #[command(flatten)]
    shared: Emulated,
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let figure = arguments.figure.clone();
    let selection = figure.map_or(Selection::All, Selection::Figure);
    arguments.shared.run(
        format,
        |options| pats::run(options, &selection),
        PatsReport::page,
        PatsReport::table,
    )?;
    Ok(())
}
