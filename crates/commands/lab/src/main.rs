//! The `egeria-lab` command: benches, published figures compared with the model, and a demonstration.

#![forbid(unsafe_code)]

mod aims;
mod bench;
mod demo;
mod facts;
mod papers;
mod placement;
mod programs;
mod trials;
mod validation;

use std::process::ExitCode;

use clap::Subcommand;
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_cli::program::Program;

const PROGRAM: Program = Program {
    name: "egeria-lab",
    about: "Measure Egeria and its peers, compare published figures with the model, and demonstrate",
    after_help: "\
Examples:
  egeria-lab demo --quick
  egeria-lab bench datapath --rounds 5 --json > rows.json
  egeria-lab papers --report papers.html

Everything happens on scratch volumes in memory; no volume of yours is touched.
Exit status: 0 done, 1 failed, 2 wrong command line.",
};

#[derive(Subcommand, Debug)]
enum Command {
    /// Measure Egeria and its peers
    Bench(bench::Arguments),
    /// Run fio, RocksDB and everyday programs on a scratch volume, and write a report
    Demo(demo::Arguments),
    /// Compare the micro-benchmarks that machine profiles cite with what the model gives
    Facts(facts::Arguments),
    /// Compare the claims of four papers with what the model predicts
    Papers(papers::Arguments),
    /// Judge what the placement suite printed in its guest, and draw it
    Placement(placement::Arguments),
    /// Try unmodified programs on tmpfs, on a mount and under the library, and kill them
    Programs(programs::Arguments),
    /// Count how often `egeria trial` is right, on simulated and on real programs
    Trials(trials::Arguments),
    /// Compare public measurements, declared before the model ran on them, with its predictions
    Validation(validation::Arguments),
}

fn main() -> ExitCode {
    PROGRAM.start(run)
}

fn run(command: &Command, format: Format) -> Outcome<ExitCode> {
    match command {
        Command::Demo(demo) => return demo::run(demo, format),
        Command::Bench(bench) => bench::run(bench, format),
        Command::Facts(facts) => facts::run(facts, format),
        Command::Papers(papers) => papers::run(papers, format),
        Command::Placement(placement) => placement::run(placement, format),
        Command::Programs(programs) => programs::run(programs, format),
        Command::Trials(trials) => trials::run(trials, format),
        Command::Validation(validation) => validation::run(validation, format),
    }?;
    Ok(ExitCode::SUCCESS)
}
