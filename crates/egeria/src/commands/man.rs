//! `egeria man`: manual pages, generated from the command line itself.

use clap::{Args, CommandFactory};
use egeria_cli::manual;

use crate::failure::Outcome;
use crate::output::Format;

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

/// Prints or writes the pages.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let command = crate::arguments::Arguments::command();
    manual::run(&arguments.pages, command, format)
}
