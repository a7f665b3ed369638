//! `egeria-lab bench names`: what names cost.

use clap::Args;
use egeria_bench::PlacesOptions;
use egeria_bench::names::plan::Operation;
use egeria_bench::names::{self, NamesReport, Selection};

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

use super::shared::Places;

/// Arguments of `egeria-lab bench names`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench names
  egeria-lab bench names --quick --op stat --op open
  egeria-lab bench names --fresh 20000 --fresh 200000
  egeria-lab bench names --json > rows.json

Four places in turn in every round: tmpfs; a volume under the preload library
(run); its mount without the library; a minimal FUSE loopback over tmpfs, of
the same FUSE library and as many threads, where the kernel keeps names and
attributes for 1 s (libfuse's default). Directories of 10 and 100,000 names,
1 and 2 threads, each in its own directory or both in one. Operations: create
(with close), open (with close), open_deep (five directories down), stat,
readdir (each name), rename, link, unlink, mkdir, truncate, append (4 KiB to a
new file). Fresh volumes: 20,000 names are made in one new directory, each is
renamed once, all are removed. Figures are medians over the rounds. JSON rows: op, threads,
directory, entries, tmpfs_ns, run_ns, mount_ns, loopback_ns, spread; of two
threads the time in which one call of either is done.")]
#[command(mut_arg("quick", |arg| arg.help("One thread, small directories, short turns")))]
pub struct Arguments {
    /// Measure this operation only; may be repeated
    #[arg(long = "op", value_name = "OP", value_parser = operation)]
    operations: Vec<Operation>,
    /// Measure fresh volumes only, with N names; may be repeated
    #[arg(long, value_name = "N", conflicts_with = "operations",
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    fresh: Vec<u32>,
    #[command(flatten)]
    places: Places,
}

fn operation(text: &str) -> Result<Operation, String> {
    Operation::named(text).ok_or_else(|| {
        let names = Operation::ALL.map(Operation::name).join(", ");
        format!("there is no such operation; use one of {names}")
    })
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let fresh: Vec<usize> = arguments
        .fresh
        .iter()
        .map(|names| *names as usize)
        .collect();
    let mut selection = if !fresh.is_empty() {
        Selection::fresh(fresh)
    } else if arguments.places.quick {
        Selection::quick()
    } else {
        Selection::all()
    };
    if !arguments.operations.is_empty() {
        selection.operations.clone_from(&arguments.operations);
        selection.fresh.clear();
    }
    let measure = |options: &PlacesOptions<'_>| names::run(options, &selection);
    let report = arguments.places.run(measure)?;
    format.print(&report, NamesReport::table)
}
