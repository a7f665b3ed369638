//! `egeria completions`: what shells complete.

use clap::{Args, CommandFactory};
use egeria_cli::completions;

use crate::failure::Outcome;
use crate::output::Format;

/// Arguments of `egeria completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  egeria completions bash > /etc/bash_completion.d/egeria")]
pub struct Arguments {
    #[command(flatten)]
    shell: completions::Arguments,
}

/// Prints the script.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let command = crate::arguments::Arguments::command();
    completions::run(&arguments.shell, command, format)
}
