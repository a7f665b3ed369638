//! The `egeria-lab` command: benches, published figures compared with the model, and a demonstration.

#![forbid(unsafe_code)]

mod bench;
mod demo;
mod facts;
mod papers;
mod validation;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use egeria_cli::about::About;
use egeria_cli::failure::Outcome;
use egeria_cli::output::FormatOption;
use egeria_cli::usage;

/// Measure Egeria and its peers, compare published figures with the model, and demonstrate.
#[derive(Parser, Debug)]
#[command(
    name = "egeria-lab",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
#[command(after_help = "\
Examples:
  egeria-lab demo --quick
  egeria-lab bench datapath --rounds 5 --json > rows.json
  egeria-lab papers --report papers.html

Everything happens on scratch volumes in memory; no volume of yours is touched.
Exit status: 0 done, 1 failed, 2 wrong command line.")]
struct Arguments {
    #[command(flatten)]
    output: FormatOption,
    #[command(subcommand)]
    command: Command,
}

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
    /// Compare public measurements, declared before the model ran on them, with its predictions
    Validation(validation::Arguments),
    #[command(flatten)]
    About(About),
}

fn main() -> ExitCode {
    usage::start("egeria-lab", |arguments| run(&arguments))
}

fn run(arguments: &Arguments) -> Outcome<ExitCode> {
    let format = arguments.output.format();
    match &arguments.command {
        Command::Demo(demo) => return demo::run(demo, format),
        Command::Bench(bench) => bench::run(bench, format),
        Command::Facts(facts) => facts::run(facts, format),
        Command::Papers(papers) => papers::run(papers, format),
        Command::Validation(_) => validation::run(format),
        Command::About(about) => about.run(Arguments::command(), format),
    }?;
    Ok(ExitCode::SUCCESS)
}
