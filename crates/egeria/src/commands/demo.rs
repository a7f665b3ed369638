//! `egeria demo`: the main job on real programs, with a report.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use egeria_bench::demo::{self, DemoOptions};
use egeria_machine::Machine;

use crate::commands::bench::stopped;
use crate::failure::Outcome;
use crate::output::{self, Format};
use crate::preload;
use crate::progress::Progress;
use crate::signals::Signals;

/// Arguments of `egeria demo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria demo
  egeria demo --quick --out /tmp/report

Runs fio, RocksDB's db_bench, cp, tar, sqlite3 and git on a scratch volume
over two emulated nodes, and on tmpfs; verifies the data of each; writes
report.html and report.json. Under five minutes.
Needs the Debian packages fio, rocksdb-tools, sqlite3, git, fuse3: `make setup`.
Exit status: 1 when a program failed or its data was wrong.")]
pub struct Arguments {
    /// Machine file or profile the volume spans
    #[arg(long, value_name = "FILE|PROFILE", default_value = "optane-2s")]
    machine: String,
    /// Directory for report.html and report.json
    #[arg(long, value_name = "DIR", default_value = "egeria-report")]
    out: PathBuf,
    /// A few short runs only
    #[arg(long)]
    quick: bool,
}

/// Runs everything, and says what came of it.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let machine = Machine::resolve(Some(&arguments.machine), None)?;
    let library = preload::require()?;
    let signals = Signals::install()?;
    let progress = Progress::bar("preparing");
    let tell = |step: &egeria_bench::Progress<'_>| progress.step(step.done, step.total, step.what);
    let options = DemoOptions {
        quick: arguments.quick,
        cancel: Some(signals.stop_flag()),
        progress: &tell,
        ..DemoOptions::new(machine, library, arguments.out.clone())
    };
    let report = demo::run(&options).map_err(|error| stopped(&signals, error))?;
    drop(progress);
    format.print(&report, demo::DemoReport::table)?;
    if report.all_verified() {
        return Ok(ExitCode::SUCCESS);
    }
    output::complain(&report.verdict());
    Ok(ExitCode::FAILURE)
}
