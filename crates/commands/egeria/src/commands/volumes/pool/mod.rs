//! `egeria pool`: change the pools of a volume.

mod add;
mod bad_sectors;
mod drain;
mod evacuation;
mod remove;
mod replace;
mod until_stopped;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

/// Arguments of `egeria pool`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  egeria pool add /mnt/pmem0/pool --pool 2:/mnt/pmem2/pool:64GiB
  egeria pool drain /mnt/pmem2/pool
  egeria pool remove /mnt/pmem2/pool
  egeria pool replace /mnt/pmem1/pool --by 1:/mnt/pmem2/pool:64GiB

`egeria df` lists the pools of a volume.")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Add a pool to a volume, also while it is in use
    Add(add::Arguments),
    /// Move all files off a pool of a volume, also while it is in use
    Drain(drain::Arguments),
    /// Remove a pool from a volume that is not in use
    Remove(remove::Arguments),
    /// Put another pool in the place of one of a volume that is not in use
    Replace(replace::Arguments),
}

/// Changes the pools.
pub fn run(arguments: Arguments, format: Format) -> Outcome<ExitCode> {
    match arguments.what {
        What::Add(add) => add::run(add, format),
        What::Drain(drain) => return drain::run(&drain, format),
        What::Remove(remove) => remove::run(&remove, format),
        What::Replace(replace) => return replace::run(replace, format),
    }?;
    Ok(ExitCode::SUCCESS)
}
