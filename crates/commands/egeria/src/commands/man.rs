//! `egeria man`: manual pages, generated from the command line itself.

use clap::{Args, Command};
use egeria_cli::manual;

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

/// Arguments of `egeria man`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria man | man -l -
  egeria man --out /usr/local/share/man/man1")]
pub struct Arguments {
    #[command(flatten)]
    pages: manual::Arguments,
}

/// Prints or writes the pages of this command line.
pub fn run(arguments: &Arguments, command: Command, format: Format) -> Outcome {
    manual::run(&arguments.pages, command, format)
}
