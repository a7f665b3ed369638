//! `egeria completions`: what shells complete.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde::Serialize;

use crate::failure::Outcome;
use crate::output::Format;

/// Arguments of `egeria completions`.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  egeria completions bash > /etc/bash_completion.d/egeria")]
pub struct Arguments {
    /// Shell to complete in
    shell: Shell,
}

#[derive(Serialize)]
struct Document {
    shell: String,
    script: String,
}

/// Prints the script.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let mut script = Vec::new();
    let mut command = crate::arguments::Arguments::command();
    clap_complete::generate(arguments.shell, &mut command, "egeria", &mut script);
    let document = Document {
        shell: arguments.shell.to_string(),
        script: String::from_utf8_lossy(&script).into_owned(),
    };
    format.print(&document, |document| document.script.clone())
}
