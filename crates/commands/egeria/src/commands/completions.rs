//! `egeria completions`: what shells complete.

use clap::{Args, Command};
use egeria_cli::completions;

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

/// Arguments of `egeria completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  egeria completions bash > /etc/bash_completion.d/egeria")]
pub struct Arguments {
    #[command(flatten)]
    shell: completions::Arguments,
}

/// Prints the script for this command line.
pub fn run(arguments: &Arguments, command: Command, format: Format) -> Outcome {
    completions::run(&arguments.shell, command, format)
}
