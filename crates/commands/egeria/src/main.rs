//! The `egeria` command: thin adapters over the rooms that do the work.

mod account;
mod arguments;
mod caller;
mod commands;
mod configuration;
mod control;
mod daemon_log;
mod http;
mod machine_choice;
mod metrics;
mod owner;
mod paths;
mod placement;
mod policy_choice;
mod served;
mod service;
mod session;
mod sharing;
mod sizes;
mod summary;

use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};

/// How long a command waits for a volume that is being attached or checked, milliseconds.
const ATTACH_PATIENCE: &str = "EGERIA_ATTACH_PATIENCE_MS";

fn main() -> ExitCode {
    caller::keep_status_of_children();
    let patience = std::env::var(ATTACH_PATIENCE).ok();
    if let Some(limit_ms) = patience.and_then(|limit| limit.parse().ok()) {
        egeria_engine::set_attach_patience(Duration::from_millis(limit_ms));
    }
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
