//! `egeria-lab bench odin`: the figures of OdinFS, on an emulated machine.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use egeria_bench::odin::{self, OdinOptions, OdinReport};

use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};
use egeria_cli::preload;
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;

/// Arguments of `egeria-lab bench odin`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench odin
  egeria-lab bench odin --nodes 8 --rounds 1
  egeria-lab bench odin --json | jq '.summary'

Real fio on an emulated machine of eight sockets (odin-8s), on its first 1, 2, 4
and 8 nodes: reads and writes of 2 MiB and 4 KiB, of files that lie on one node,
on the nodes in turn, and in stripes, directly and by delegates; and writers of
one striped file. Takes about 25 minutes with five rounds. JSON: summary (nodes,
write_2m, read_2m, write_4k, read_4k: striped, as times all data on one node;
shared_file: all writers of one file as times one; amplification: bytes stored
per byte written; delegated: write_2m, read_2m, one_thread_write_2m,
one_thread_read_2m, as times direct access of the same stripes), emulated, rows
(nodes, layout, threads, request_bytes, op, shared_file, bytes_s, of_one_node).
Needs the Debian packages fio and fuse3: `make setup`.")]
pub struct Arguments {
    /// Rounds to take medians over
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: u16,
    /// Only so many nodes; may be repeated
    #[arg(long = "nodes", value_name = "N", value_parser = ["1", "2", "4", "8"])]
    nodes: Vec<String>,
    /// How long each point is measured, ms of host time
    #[arg(long, value_name = "MS", default_value_t = 1500, value_parser = clap::value_parser!(u32).range(100..=600_000))]
    measured: u32,
    /// Write a page here
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Directory on tmpfs for pools
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let library = preload::require()?;
    let signals = Signals::install()?;
    let progress = Progress::bar("preparing");
    let tell = |step: &egeria_bench::Progress<'_>| progress.step(step.done, step.total, step.what);
    let options = OdinOptions {
        memory_directory: arguments.memory.clone(),
        nodes: arguments
            .nodes
            .iter()
            .filter_map(|nodes| nodes.parse().ok())
            .collect(),
        rounds: arguments.rounds.into(),
        measured: Duration::from_millis(arguments.measured.into()),
        cancel: Some(signals.stop_flag()),
        progress: &tell,
        ..OdinOptions::new(library)
    };
    let report = odin::run(&options).map_err(|error| signals.or_failure(error))?;
    drop(progress);
    if let Some(path) = &arguments.report {
        output::write_page(path, &report.page())?;
    }
    format.print(&report, OdinReport::table)
}
