//! The `egeria-torture` command: what Egeria must survive.

#![forbid(unsafe_code)]

mod crash;
mod fuzz;
mod kill;
mod result;

use std::process::ExitCode;

use clap::Subcommand;
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_cli::program::Program;

const PROGRAM: Program = Program {
    name: "egeria-torture",
    about: "Test what Egeria must survive: crashes, killed processes, forged input",
    after_help: "\
Examples:
  egeria-torture crash --quick
  egeria-torture kill --kills 100
  egeria-torture fuzz --target image --runs 20000

Everything happens on scratch volumes in memory; no volume of yours is touched.
Exit status: 0 nothing wrong, 1 something wrong or failed, 2 wrong command line.",
};

#[derive(Subcommand, Debug)]
enum Command {
    /// Stop the machine at every store and fence, recover, and compare
    Crash(crash::Arguments),
    /// Kill and stop processes and mounts at random moments, and compare
    Kill(kill::Arguments),
    /// Try forged volumes, requests, recordings and settings: no panic, hang or access out of bounds
    Fuzz(fuzz::Arguments),
}

fn main() -> ExitCode {
    PROGRAM.start(run)
}

fn run(command: &Command, format: Format) -> Outcome<ExitCode> {
    match command {
        Command::Crash(crash) => crash::run(crash, format),
        Command::Kill(kill) => kill::run(kill, format),
        Command::Fuzz(fuzz) => fuzz::run(fuzz, format),
    }
}
