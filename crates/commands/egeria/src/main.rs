//! The `egeria` command: thin adapters over the crates that do the work.

mod account;
mod arguments;
mod commands;
mod configuration;
mod control;
mod daemon_log;
mod machine_choice;
mod owner;
mod paths;
mod policy_choice;
mod served;
mod service;
mod session;

use std::process::ExitCode;
use std::time::Duration;

use arguments::Arguments;
use clap::CommandFactory;
use egeria_cli::failure::Failure;
use egeria_cli::usage;

/// How long a command waits for a volume that is being attached or checked, milliseconds.
const ATTACH_PATIENCE: &str = "EGERIA_ATTACH_PATIENCE_MS";

fn main() -> ExitCode {
    let patience = std::env::var(ATTACH_PATIENCE).ok();
    if let Some(limit_ms) = patience.and_then(|limit| limit.parse().ok()) {
        egeria_engine::set_attach_patience(Duration::from_millis(limit_ms));
    }
    let typed = std::env::args_os().nth(1);
    if typed.is_some_and(|word| word == "bench" || word == "demo") {
        let line =
            "`bench` and `demo` are commands of `egeria-lab`; install the package egeria-lab";
        return Failure::Usage(line.to_owned()).report();
    }
    usage::start("egeria", Arguments::command(), commands::run)
}
