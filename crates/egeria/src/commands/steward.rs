//! `egeria steward`: look after all threads that use a volume.

use std::path::PathBuf;

use clap::Args;
use egeria_fs::AttachMode;
use egeria_policy::nthread::Configuration;
use egeria_steward::{Scope, Summary};
use serde::Serialize;

use crate::failure::Outcome;
use crate::machine_choice::{MachineArguments, attach_options};
use crate::output::{self, Format};
use crate::owner;
use crate::policy_choice::{self, StewardArguments};
use crate::session;
use crate::signals::Signals;

/// Arguments of `egeria steward`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria steward /mnt/pmem0/pool
  egeria steward /mnt/pmem0/pool --policy nm --set cpu_limit=0.8 --window 500
  egeria steward /mnt/pmem0/pool --policy off --record yesterday.trace

Works until SIGINT or SIGTERM, then gives all threads the CPUs their owners gave
them. The volume must be in use (mounted). One steward works on a volume at a
time. Killed, it leaves a list, and the next start puts everything back first.
`egeria top` and `egeria explain` show what it does and why.")]
pub struct Arguments {
    /// Path of any pool of the volume
    pool: PathBuf,
    /// What moves threads: off (only watch), rl, cpu, nm, full
    #[arg(long, value_name = "off|rl|cpu|nm|full", default_value = "full", value_parser = policy_choice::configuration)]
    policy: Configuration,
    #[command(flatten)]
    steward: StewardArguments,
    #[command(flatten)]
    machine: MachineArguments,
}

#[derive(Serialize)]
struct Document {
    volume: String,
    policy: String,
    steward: Summary,
}

/// Works until a signal, then says what was done.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let signals = Signals::install()?;
    arguments.steward.settings(arguments.policy)?;
    owner::run_as_owner(&arguments.pool)?;
    let volume = session::attach(&arguments.pool, AttachMode::Join, &attach_options(None))?;
    volume.works_on_behalf();
    let machine = match (volume.declared_machine(), &arguments.machine.machine) {
        (Some(machine), None) => machine,
        _ => arguments.machine.resolve()?,
    };
    let steward = arguments
        .steward
        .start(&volume, &machine, arguments.policy, Scope::All)?;
    let restored = steward.summary().restored_at_start;
    if restored > 0 {
        output::remark(&format!(
            "egeria: a steward was killed here; {restored} threads have their CPUs back\n"
        ));
    }
    signals.wait();
    let document = Document {
        volume: volume.uuid().to_string(),
        policy: arguments.policy.to_string(),
        steward: steward.stop(),
    };
    format.print(&document, |document| {
        let done = &document.steward;
        format!(
            "{} moves of {} threads in {} windows; {} threads have their CPUs back\n",
            done.moves, done.moved_threads, done.windows, done.restored
        )
    })
}
