//! Shell completions: a subcommand that every program here has.

use clap::Args;
use clap_complete::Shell;
use serde::Serialize;

use crate::failure::Outcome;
use crate::output::Format;

/// Arguments of the subcommand.
// Programs flatten it into arguments of the same name, and names of groups are unique.
#[derive(Args, Debug)]
#[group(skip)]
pub struct Arguments {
    /// Shell to complete in
    shell: Shell,
}

#[derive(Serialize)]
struct Document {
    shell: String,
    script: String,
}

/// Prints the script for `command`.
///
/// # Errors
/// When stdout cannot be written.
pub fn run(arguments: &Arguments, mut command: clap::Command, format: Format) -> Outcome {
    let mut script = Vec::new();
    let name = command.get_name().to_owned();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    let document = Document {
        shell: arguments.shell.to_string(),
        script: String::from_utf8_lossy(&script).into_owned(),
    };
    format.print(&document, |document| document.script.clone())
}
