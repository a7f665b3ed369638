//! `egeria-lab bench`: Egeria compared with its peers.

mod emulation;
mod everyday;
mod migration;
mod names;
pub mod nthread;
mod odin;
mod overhead;
mod pats;
mod relocation;
pub mod shared;
mod sharpness;
mod switches;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use egeria_bench::datapath::{self, DatapathOptions};
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_cli::preload;
use egeria_cli::sizes;

use shared::measured;

/// Arguments of `egeria-lab bench`.
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
    /// Creating, opening, listing, renaming and removing files, beside tmpfs and a FUSE loopback
    Names(names::Arguments),
    /// tar, cp, rsync, git and others over a tree of files, beside tmpfs and a FUSE loopback
    Everyday(everyday::Arguments),
    /// Moving the memory of a process to another node, beside one call of migrate_pages
    Migration(migration::Arguments),
    /// fio on emulated machines, beside what the model predicts of it
    Emulation(emulation::Arguments),
    /// The figures of the NThread paper: who moves threads, on fio, RocksDB and filebench
    Nthread(nthread::Arguments),
    /// Programs that a steward looks at beside the same alone: what looking costs
    Overhead(overhead::Arguments),
    /// The figures of OdinFS: data on one node and in stripes over eight, emulated
    Odin(odin::Arguments),
    /// The figures of the PATS paper: DRAM beside many threads on persistent memory, emulated
    Pats(pats::Arguments),
    /// Readers of one node's files on two nodes: moving files beside moving threads, emulated
    Relocation(relocation::Arguments),
    /// Ways to see accesses to memory: how well they tell used from unused, and what they take
    Sharpness(sharpness::Arguments),
    /// Threads that take turns on one CPU: what switching between them takes
    Switches(switches::Arguments),
}

/// Arguments of `egeria-lab bench datapath`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench datapath
  egeria-lab bench datapath --rounds 5 --json > rows.json

All three are measured in turn in every round, on DRAM, without emulation;
figures are medians over the rounds. Nobody flushes: pools in DRAM survive no
power loss. JSON rows: op, block_bytes, threads, egeria_ops_s,
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
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    match &arguments.what {
        What::Datapath(chosen) => datapath(chosen, format),
        What::Names(chosen) => names::run(chosen, format),
        What::Everyday(chosen) => everyday::run(chosen, format),
        What::Migration(chosen) => migration::run(chosen, format),
        What::Emulation(chosen) => emulation::run(chosen, format),
        What::Nthread(chosen) => nthread::run(chosen, format),
        What::Odin(chosen) => odin::run(chosen, format),
        What::Overhead(chosen) => overhead::run(chosen, format),
        What::Relocation(chosen) => relocation::run(chosen, format),
        What::Sharpness(chosen) => sharpness::run(chosen, format),
        What::Switches(chosen) => switches::run(chosen, format),
        What::Pats(chosen) => pats::run(chosen, format),
    }
}

fn datapath(chosen: &DatapathArguments, format: Format) -> Outcome {
    let usual = DatapathOptions::new(preload::require()?);
    let report = measured(|watch| {
        datapath::run(&DatapathOptions {
            rounds: chosen.rounds.map_or(usual.rounds, usize::from),
            file_bytes: chosen.file_size.unwrap_or(usual.file_bytes),
            memory_directory: chosen.memory.clone(),
            watch,
            ..usual
        })
    })?;
    format.print(&report, datapath::DatapathReport::table)
}
