//! `egeria-lab bench odin`: the figures of OdinFS, on an emulated machine.

use clap::Args;
use egeria_bench::odin::{self, OdinReport, Selection};
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

use super::shared::Emulated;

/// Arguments of `egeria-lab bench odin`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench odin
  egeria-lab bench odin --nodes 8 --rounds 1
  egeria-lab bench odin --json | jq '.summary'

Real fio on an emulated machine of eight sockets (odin-8s), on its first 1, 2, 4
and 8 nodes: reads and writes of 2 MiB and 4 KiB, of files that lie on one node,
on the nodes in turn, and in stripes, directly and with a planner that decides
whether delegates access them, and how many; and writers of one file, of parts
of it and of the whole. Takes about 45 minutes with five rounds. JSON: summary
(nodes, write_2m, read_2m, write_4k, read_4k: striped, as times all data on one
node; shared_file: all writers of parts of one file as times one; contended:
writers of the whole of one file, as times one node; amplification: bytes stored
per byte written; medium_amplification, delegated_medium_amplification: bytes
that media write; of_spread, planned, planned_of_spread (write_2m, read_2m);
delegated: write_2m, read_2m, one_thread_write_2m, one_thread_read_2m, with the
planner, as times direct access), emulated, rows (nodes, layout, threads,
request_bytes, op, shared_file, overlapping, bytes_s, of_one_node, of_spread,
delegates, medium_written).
Needs the Debian packages fio and fuse3: `make setup`.")]
pub struct Arguments {
    /// Only so many nodes; may be repeated
    #[arg(long = "nodes", value_name = "N", value_parser = ["1", "2", "4", "8"])]
    nodes: Vec<String>,
    #[command(flatten)]
    shared: Emulated,
}

/// Measures and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let nodes = arguments.nodes.iter();
    let nodes = nodes.filter_map(|nodes| nodes.parse().ok());
    let selection = Selection::Nodes(nodes.collect());
    arguments.shared.run(
        format,
        |options| odin::run(options, &selection),
        OdinReport::page,
        OdinReport::table,
    )?;
    Ok(())
}
