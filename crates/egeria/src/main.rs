//! The `egeria` command: thin adapters over the rooms that do the work.

mod account;
mod arguments;
mod commands;
mod control;
mod daemon_log;
mod machine_choice;
mod owner;
mod paths;
mod placement;
mod policy_choice;
mod served;
mod session;
mod sizes;
mod summary;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

fn main() -> ExitCode {
    // A pool that shrinks while it is mapped is an error, not the end. Without the guard it would be
    // the end, as it is for any program; nothing else changes.
    let _ = egeria_media::guard::install();
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            return egeria_cli::usage::refuse(&error, &arguments::Arguments::command());
        }
    };
    match commands::run(arguments) {
        Ok(status) => status,
        Err(failure) => failure.report(),
    }
}
