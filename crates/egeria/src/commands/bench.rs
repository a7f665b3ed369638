//! `egeria bench`: Egeria beside its peers, after crashes, and under forged input.

pub mod crash;
mod fuzz;
mod kill;
pub mod nthread;
mod papers;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use egeria_bench::Replayed;
use egeria_bench::datapath::{self, DatapathOptions};

use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};
use crate::progress::Progress;
use crate::signals::Signals;
use crate::{preload, sizes};

/// Arguments of `egeria bench`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Reads, writes and appends through the preload library, beside tmpfs and a bare memcpy
    Datapath(DatapathArguments),
    /// Death of processes: workers and mounts are killed, and nothing that returned may be missing
    Kill(kill::Arguments),
    /// The figures of the NThread paper: who moves threads, on fio, RocksDB and filebench
    Nthread(nthread::Arguments),
    /// The claims of four papers, beside what the model predicts
    Papers(papers::Arguments),
    /// Crashes at every instant of all short sequences of operations: nothing that returned is lost
    Crash(crash::Arguments),
    /// Forged volumes, requests, recordings and machine files: nothing may panic, hang or reach too far
    Fuzz(fuzz::Arguments),
}

/// Arguments of `egeria bench datapath`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria bench datapath
  egeria bench datapath --rounds 5 --json > rows.json

All three are measured in turn in every round, on DRAM, without emulation;
figures are medians over the rounds. Egeria flushes and fences what it writes,
the bare copy does not. JSON rows: op, block_bytes, threads, egeria_ops_s,
tmpfs_ops_s, memcpy_ops_s, of_memcpy, of_tmpfs.")]
struct DatapathArguments {
    /// Rounds to take medians over
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Size of each thread's file, well beyond the caches
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    file_size: Option<u64>,
    /// Directory on tmpfs for pools and files
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    match &arguments.what {
        What::Datapath(chosen) => datapath(chosen, format)?,
        What::Kill(chosen) => kill::run(chosen, format)?,
        What::Nthread(chosen) => nthread::run(chosen, format)?,
        What::Papers(chosen) => papers::run(chosen, format)?,
        What::Crash(chosen) => return crash::run(chosen, format),
        What::Fuzz(chosen) => return fuzz::run(chosen, format),
    }
    Ok(ExitCode::SUCCESS)
}

fn datapath(chosen: &DatapathArguments, format: Format) -> Outcome {
    let library = preload::require()?;
    let signals = Signals::install()?;
    let progress = Progress::bar("measuring");
    let tell = |step: &egeria_bench::Progress<'_>| progress.step(step.done, step.total, step.what);
    let mut options = DatapathOptions::new(library);
    options.rounds = chosen.rounds.map_or(options.rounds, usize::from);
    options.file_bytes = chosen.file_size.unwrap_or(options.file_bytes);
    options.memory_directory.clone_from(&chosen.memory);
    let options = DatapathOptions {
        cancel: Some(signals.stop_flag()),
        progress: &tell,
        ..options
    };
    let report = datapath::run(&options).map_err(|error| stopped(&signals, error))?;
    drop(progress);
    format.print(&report, datapath::DatapathReport::table)
}

/// An interruption ends with the signal's status, everything else with its line.
pub fn stopped(signals: &Signals, error: egeria_bench::BenchError) -> Failure {
    match signals.check() {
        Err(interrupted) => interrupted,
        Ok(()) => Failure::new(error),
    }
}

/// What a saved case shows now, and whether something is still wrong.
fn tell_again(replayed: &Replayed, format: Format) -> Outcome<ExitCode> {
    if format == Format::Json {
        format.print(replayed, |_| String::new())?;
    } else {
        output::print(format!("{}\n", replayed.text).as_bytes())?;
    }
    Ok(status(replayed.is_wrong))
}

fn status(is_wrong: bool) -> ExitCode {
    match is_wrong {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}
