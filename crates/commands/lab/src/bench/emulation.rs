//! `egeria-lab bench emulation`: programs on emulated machines, compared with what the model predicts of them.

use clap::Args;
use egeria_bench::emulation::{self, EmulationReport};
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

use super::shared::Emulated;
use crate::aims::Aims;

/// Arguments of `egeria-lab bench emulation`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench emulation
  egeria-lab bench emulation --only DRAM --rounds 1
  egeria-lab bench emulation --json | jq '.worst'

Real fio on emulated machines, from one node to eight, compared with what `egeria
sim` predicts; also with one, four and twelve delegates per node. What programs
compute between two accesses, as measured, is an input of the model. Takes a quarter of an hour; a busy host makes it longer.
JSON: median, worst (of the errors), aims, rows (scenario, program, machine,
nodes, threads, request_bytes, read_share, think_ns, dilation, emulated_bytes_s,
predicted_bytes_s, error).
Needs the Debian packages fio and fuse3: `make setup`.")]
#[command(mut_arg("rounds", |arg| arg.default_value("3")))]
pub struct Arguments {
    /// Only scenarios whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    #[command(flatten)]
    shared: Emulated,
    #[command(flatten)]
    aims: Aims,
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let report = arguments.shared.run(
        format,
        |options| emulation::run(options, arguments.only.as_deref()),
        EmulationReport::page,
        EmulationReport::table,
    )?;
    arguments.aims.end(&report.aims)
}
