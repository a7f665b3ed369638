//! The `egeria-torture` command: what Egeria must survive.

#![forbid(unsafe_code)]

mod crash;
mod fuzz;
mod kill;
mod result;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use egeria_cli::about::About;
use egeria_cli::failure::Outcome;
use egeria_cli::output::FormatOption;
use egeria_cli::usage;

/// Test what Egeria must survive: crashes, killed processes, forged input.
#[derive(Parser, Debug)]
#[command(
    name = "egeria-torture",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(after_help = "\
Examples:
  egeria-torture crash --quick
  egeria-torture kill --kills 100
  egeria-torture fuzz --target image --runs 20000

Everything happens on scratch volumes in memory; no volume of yours is touched.
Exit status: 0 nothing wrong, 1 something wrong or failed, 2 wrong command line.")]
struct Arguments {
    #[command(flatten)]
    output: FormatOption,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Stop the machine at every store and fence, recover, and compare
    Crash(crash::Arguments),
    /// Kill and stop processes and mounts at random moments, and compare
    Kill(kill::Arguments),
    /// Try forged volumes, requests, recordings and settings: no panic, hang or access out of bounds
    Fuzz(fuzz::Arguments),
    #[command(flatten)]
    About(About),
}

fn main() -> ExitCode {
    usage::start("egeria-torture", |arguments| run(&arguments))
}

fn run(arguments: &Arguments) -> Outcome<ExitCode> {
    let format = arguments.output.format();
    match &arguments.command {
        Command::Crash(crash) => return crash::run(crash, format),
        Command::Kill(kill) => return kill::run(kill, format),
        Command::Fuzz(fuzz) => return fuzz::run(fuzz, format),
        Command::About(about) => about.run(Arguments::command(), format),
    }?;
    Ok(ExitCode::SUCCESS)
}
