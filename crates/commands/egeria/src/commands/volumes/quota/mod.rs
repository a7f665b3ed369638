//! `egeria quota`: limits of directory trees.

mod remove;
mod set;
mod show;
pub(super) mod tree;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

/// Arguments of `egeria quota`.
#[derive(Args, Debug)]
#[command(arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  egeria quota set /srv/data/home/alice --bytes 10GiB --inodes 100000
  egeria quota show /srv/data
  egeria quota remove /srv/data/home/alice

The volume stays in use. What exceeds a limit fails with EDQUOT.")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Limit what is in a directory and below it
    Set(set::Arguments),
    /// Show limits and what is used
    Show(show::Arguments),
    /// Remove the limits of a directory
    Remove(remove::Arguments),
}

/// Sets, shows or removes limits.
pub fn run(arguments: Arguments, format: Format) -> Outcome<ExitCode> {
    match arguments.what {
        What::Set(set) => set::run(&set, format),
        What::Show(show) => show::run(&show, format),
        What::Remove(remove) => remove::run(&remove, format),
    }?;
    Ok(ExitCode::SUCCESS)
}
