//! The `egeria` command: thin adapters over the rooms that do the work.

mod account;
mod arguments;
mod commands;
mod control;
mod failure;
mod machine_choice;
mod mount_log;
mod output;
mod owner;
mod paths;
mod placement;
mod policy_choice;
mod preload;
mod progress;
mod scratch;
mod served;
mod session;
mod signals;
mod sizes;
mod summary;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    // A pool that shrinks while it is mapped is an error, not the end. Without the guard it would be
    // the end, as it is for any program; nothing else changes.
    let _ = egeria_media::guard::install();
    let arguments = match arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return arguments::refuse(&error),
    };
    match commands::run(arguments) {
        Ok(status) => status,
        Err(failure) => failure.report(),
    }
}
