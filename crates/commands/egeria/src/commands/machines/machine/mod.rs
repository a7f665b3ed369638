//! `egeria machine`: what the machine is, whether an emulated one is what it says, and how fast this one is.

mod against;
pub(in crate::commands) mod calibrate;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use egeria_machine::{Group, GroupSource, Machine};
use serde::Serialize;

use crate::machine_choice::MachineArguments;
use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};

/// Arguments of `egeria machine`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "\
Examples:
  egeria machine
  egeria machine calibrate --output here.toml
  egeria machine --machine optane-2s --json
  egeria machine --machine optane-2s --self-test

A machine file is TOML: `name`, `distances`, [emulation] with `dilation` and
`timing`, and [[nodes]] with `id`, `cpus`, `memory_bytes` and [nodes.emulated]:
`cores`, `dimms`, `read_bytes_s`, `write_bytes_s`, `read_stream_bytes_s`,
`write_stream_bytes_s`, `read_latency_ns`, `write_latency_ns`,
`remote_latency_factor`, `remote_read_bandwidth_factor`,
`remote_write_bandwidth_factor`, `read_curve`, `write_curve`, and perhaps
`llc_bytes`, `llc_latency_ns`, `llc_read_bytes_s`. A real machine's file has
[nodes.cache] and [[nodes.memories]] instead. Examples: --toml with the machines
optane-2s and optane-1s; the meaning of each key: docs/reference/machine-file.md.")]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    choice: MachineArguments,
    /// Read `sys` and `proc` below this directory instead of /
    #[arg(long, value_name = "DIR")]
    sysfs_root: Option<PathBuf>,
    /// Measure emulated bandwidth and latency against what the machine file says
    #[arg(long, conflicts_with = "toml")]
    self_test: bool,
    /// Print the machine as a machine file
    #[arg(long, conflicts_with = "json")]
    toml: bool,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Measure what this machine's memories give its CPUs, and write it down as a machine file
    Calibrate(calibrate::Arguments),
}

/// Shows, tests or measures the machine.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    if let Some(Action::Calibrate(arguments)) = &arguments.action {
        return calibrate::run(arguments, format);
    }
    let machine = match &arguments.sysfs_root {
        Some(root) => Machine::resolve(arguments.choice.machine.as_deref(), Some(root))?,
        None => arguments.choice.resolve()?,
    };
    if arguments.self_test {
        return super::self_test::run(&machine, format);
    }
    if arguments.toml {
        output::print(machine.to_toml().as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = Shown {
        groups: machine.list_groups(),
        groups_from: machine.groups().source,
        machine: &machine,
    };
    format.print(&shown, human)?;
    Ok(ExitCode::SUCCESS)
}

/// The machine, and what follows from it.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    machine: &'a Machine,
    groups: Vec<Group>,
    groups_from: GroupSource,
}

fn human(shown: &Shown<'_>) -> String {
    text(shown.machine)
}

/// The machine as a picture and a table.
pub(in crate::commands) fn text(machine: &Machine) -> String {
    let table = machine.table();
    let mut text = format!(
        "{}\n\n{}",
        machine.picture().trim_end(),
        output::table(&table.headers, table.rows)
    );
    for warning in &machine.warnings {
        text.push_str(&format!("\nwarning: {warning}"));
    }
    text
}
