//! `egeria-torture kill`: death of processes, and stops.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use egeria_torture::kill::{self, KillOptions, KillReport};

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::preload;
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;

/// Arguments of `egeria-torture kill`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-torture kill
  egeria-torture kill --kills 100 --seed 7 --json
  egeria-torture kill --quick
  egeria-torture kill --kills 0 --stops 50 --stacks

Processes of several threads use the same files through the preload library, the mount and
the engine at once. They and the mount are killed at random moments. Then
workers are stopped (SIGSTOP) in the middle of calls for some hundred ms, while
others look at the same file, its directory and elsewhere in all three ways.
JSON: kills, mount_kills, workers, operations, lost, longest_wait_ms,
leaked_blocks, leaked_inodes, findings, seconds, direct_calls, mount_requests,
snapshots, stopped, faults.
Exit status: 1 when anything is lost, leaked or found, somebody waited more
than a second for a dead one, or more than 100 ms (250 with --admitted) for a
stopped one who does not change the same inode.")]
pub struct Arguments {
    /// Processes to kill
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    kills: u64,
    /// Workers to stop in the middle of a call, after that
    #[arg(long, value_name = "N", default_value_t = 500,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    stops: u64,
    /// 50 of each, in half a minute
    #[arg(long, conflicts_with_all = ["kills", "stops"])]
    quick: bool,
    /// Ask gdb where stopped workers are that others wait for
    #[arg(long)]
    stacks: bool,
    /// Let each pool admit N threads at once while workers are stopped; others may then wait 250 ms for a stopped one's place
    #[arg(long, value_name = "N", conflicts_with = "mounted")]
    admitted: Option<NonZeroU32>,
    /// Stop workers on this mount and kill nobody; another version's library is named by EGERIA_PRELOAD_LIB
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kills", "memory"])]
    mounted: Option<PathBuf>,
    /// Kill nobody after so many seconds, and stop nobody after as many again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// Who is killed and stopped follows from it, as far as the scheduler lets it
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Directory on tmpfs for pools
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

/// Of each when a run is to be quick.
const QUICK: u64 = 50;

/// Kills, and prints what came of it.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let library = preload::require()?;
    let signals = Signals::install()?;
    let progress = Progress::bar("killing");
    let tell =
        |step: &egeria_harness::Progress<'_>| progress.step(step.done, step.total, step.what);
    let options = KillOptions {
        kills: if arguments.quick {
            QUICK
        } else {
            arguments.kills
        },
        stops: if arguments.quick {
            QUICK
        } else {
            arguments.stops
        },
        stacks: arguments.stacks,
        admitted: arguments.admitted,
        mounted: arguments.mounted.clone(),
        limit: arguments.seconds.map(Duration::from_secs),
        seed: arguments.seed,
        memory_directory: arguments.memory.clone(),
        cancel: Some(signals.stop_flag()),
        progress: &tell,
        ..KillOptions::new(library)
    };
    let report = kill::run(&options).map_err(|error| signals.or_failure(error))?;
    drop(progress);
    format.print(&report, KillReport::table)?;
    match report.verdict() {
        None => Ok(ExitCode::SUCCESS),
        Some(line) => Err(Failure::new(line)),
    }
}
