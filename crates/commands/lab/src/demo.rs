//! `egeria-lab demo`: the main job on real programs, with reports.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use egeria_bench::demo::{self, DemoOptions, DemoReport};
use egeria_bench::nthread::{self, Extent, NthreadOptions, NthreadReport};
use egeria_machine::Machine;
use serde::Serialize;

use crate::bench::nthread::filebench;
use crate::bench::shared::measured;
use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format};
use egeria_cli::preload;

/// Arguments of `egeria-lab demo`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab demo
  egeria-lab demo --quick --out /tmp/report

Runs fio, RocksDB's db_bench, cp, tar, sqlite3 and git on a scratch volume
over two emulated nodes, and on tmpfs; verifies the data of each; then `bench
names` and `bench everyday` in short, and one figure each of `bench pats`,
`bench odin` and `bench relocation`; writes report.html and report.json. Then
two rows of NThread's Fig. 5 on the emulated machine, at least three times
each (all: `egeria-lab bench nthread --full`); writes nthread.html. Under eight
minutes.
--quick leaves the figures of emulated machines out.
Needs the Debian packages fio, rocksdb-tools, sqlite3, git, fuse3, ripgrep,
rsync: `make setup`.
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

/// Both parts, as JSON.
#[derive(Serialize)]
struct Both<'a> {
    #[serde(flatten)]
    demo: &'a DemoReport,
    /// Rows as of `egeria-lab bench nthread`; absent when they were left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    nthread: Option<&'a NthreadReport>,
}

/// Runs everything, and says what came of it.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let machine = Machine::resolve(Some(&arguments.machine), None)?;
    let library = preload::require()?;
    let usual = DemoOptions::new(machine.clone(), library.clone(), arguments.out.clone());
    let demo = measured(|watch| {
        demo::run(&DemoOptions {
            quick: arguments.quick,
            watch,
            ..usual
        })
    })?;
    if format == Format::Human {
        format.print(&demo, DemoReport::table)?;
    }
    let emulates = machine.emulated.as_ref();
    let has_figures = !arguments.quick && emulates.is_some_and(|emulated| emulated.timing);
    let nthread = has_figures.then(|| figures_of(arguments, machine, library));
    let nthread = nthread.transpose()?;
    let both = Both {
        demo: &demo,
        nthread: nthread.as_ref(),
    };
    format.print(&both, |both| {
        both.nthread.map_or(String::new(), NthreadReport::table)
    })?;
    Ok(verdict(&demo, nthread.as_ref()))
}

fn figures_of(arguments: &Arguments, machine: Machine, library: PathBuf) -> Outcome<NthreadReport> {
    let usual = NthreadOptions::new(machine, library, filebench()?);
    measured(|watch| {
        nthread::run(&NthreadOptions {
            output_directory: Some(arguments.out.clone()),
            extent: Extent::Demo,
            watch,
            ..usual
        })
    })
}

fn verdict(demo: &DemoReport, nthread: Option<&NthreadReport>) -> ExitCode {
    if let Some(line) = nthread.and_then(NthreadReport::disturbance) {
        output::complain(&line);
    }
    let failures = nthread.map_or(&[][..], |report| &report.failures);
    for failure in failures {
        output::complain(failure);
    }
    if !demo.all_verified() {
        output::complain(&demo.verdict());
    }
    if demo.all_verified() && failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
