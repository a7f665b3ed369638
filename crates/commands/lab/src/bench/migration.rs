//! `egeria-lab bench migration`: how fast memory goes to another node.

use clap::Args;
use egeria_bench::migration::{self, MigrationOptions, MigrationReport};
use egeria_machine::NodeId;

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_cli::sizes;

use super::shared::measured;

/// Arguments of `egeria-lab bench migration`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench migration
  egeria-lab bench migration --size 1GiB --from 0 --to 1 --json

A process with memory on one node; all of it is moved to another by the workers
of `egeria move`, by one of them, and by one call of migrate_pages, in turn in
every round; with pages of 4 KiB and with huge ones. Needs a machine with two
nodes; `make guest` runs it in QEMU, where it proves function and not speed.
JSON rows: pages, bytes, workers, workers_bytes_s, one_worker_bytes_s,
system_call_bytes_s, ratio, arrived_share, whole_share.")]
pub struct Arguments {
    /// Memory of the process
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    size: u64,
    /// Rounds to take medians over
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// The node it is on at first
    #[arg(long, value_name = "N", requires = "to")]
    from: Option<u16>,
    /// The node it goes to
    #[arg(long, value_name = "N", requires = "from")]
    to: Option<u16>,
}

/// Whole huge pages.
fn size(text: &str) -> Result<u64, String> {
    const HUGE_BYTES: u64 = 2 << 20;
    let bytes = sizes::parse(text)?;
    match bytes {
        HUGE_BYTES.. => Ok(bytes / HUGE_BYTES * HUGE_BYTES),
        _ => Err("less than a huge page; give 2MiB or more".to_owned()),
    }
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let report = measured(|watch| {
        migration::run(&MigrationOptions {
            bytes: arguments.size,
            rounds: usize::from(arguments.rounds),
            nodes: arguments.from.map(NodeId).zip(arguments.to.map(NodeId)),
            watch,
        })
    })?;
    format.print(&report, MigrationReport::table)
}
