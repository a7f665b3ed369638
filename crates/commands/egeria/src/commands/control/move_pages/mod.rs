//! `egeria move`: move the memory of processes, or the page cache of files, to chosen nodes.

mod document;
mod files;
mod process;
mod wish;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use egeria_machine::Machine;

use super::named_files::{self, Destination};
use crate::commands::scope::process_id;
use document::Document;
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_cli::signals::Signals;
use egeria_cli::sizes;
use wish::Wish;

/// Arguments of `egeria move`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("to").required(true).args(["node", "spread"]))]
#[command(group = clap::ArgGroup::new("what").required(true).args(["files", "pid"]))]
#[command(after_help = "\
Examples:
  sudo egeria move --pid 4711 --node 1
  egeria move --pid 4711 --spread --max 2GiB
  egeria move /srv/data.db --node 1
  egeria move --pid 4711 --node 1 --json | jq .moved_bytes

The program runs on meanwhile, and huge pages stay whole. Of a process all of
its memory goes, of files what is cached: nothing is read (see `egeria warm`).
Left and counted are pages that other processes have mapped, too (--mapped moves
them), pinned ones, and those whose owner bound them to other nodes (numactl,
mbind). New memory of the program comes from where it did before. At the end
the kernel is asked where every page is.
Exit status: 0 when every page that may be moved is where it should be, else 1.")]
pub struct Arguments {
    /// Files, or directories with all files below (not across mounts)
    #[arg(value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    /// The memory of this process; may be repeated
    #[arg(long, value_name = "PID", value_parser = process_id, allow_negative_numbers = true)]
    pid: Vec<u32>,
    #[command(flatten)]
    to: Destination,
    /// Move so much of each process at most
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse, conflicts_with = "files")]
    max: Option<u64>,
}

/// Moves until all is there, or a signal.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let signals = Signals::install()?;
    signals.end_within(named_files::PATIENCE);
    let machine = Machine::detect()?;
    let nodes = arguments.to.nodes(&machine)?;
    let wish = Wish {
        machine: &machine,
        nodes: &nodes,
        also_mapped: arguments.to.mapped,
        max_bytes: arguments.max.unwrap_or(u64::MAX),
        signals: &signals,
    };
    let begin = Instant::now();
    let mut document = match arguments.pid.as_slice() {
        [] => files::run(&arguments.files, &wish)?,
        processes => process::run(processes, &wish)?,
    };
    document.seconds = begin.elapsed().as_secs_f64();
    format.print(&document, Document::human)?;
    Ok(if document.complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
