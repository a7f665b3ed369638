//! `egeria-lab bench everyday`: everyday programs over a tree of files.

use std::path::PathBuf;

use clap::Args;
use egeria_bench::everyday::{self, EverydayOptions, EverydayReport, Job, Source};

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use egeria_cli::preload;

use super::shared::measured;

/// Arguments of `egeria-lab bench everyday`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab bench everyday
  egeria-lab bench everyday --quick --job rsync --job rm
  egeria-lab bench everyday --tree /usr/share/doc --json > rows.json

Four places in turn in every round: tmpfs; a volume under the preload library
(run); its mount without the library; a minimal FUSE loopback over tmpfs, of
the same FUSE library and as many threads, where the kernel keeps names and
attributes for 1 s (libfuse's default). Jobs: tar (extract), cp (-a), ls (-lR),
find (-size), du, rg (-c), rsync (-a), git-commit (init, add, commit),
git-status, zip (Python's zipfile), rm (-rf, of what the others made). Every
result is compared with the original tree. Figures are medians over the rounds.
JSON rows: job, tmpfs_s, run_s, mount_s, loopback_s, verified.
Needs the Debian packages ripgrep, rsync, git and python3: `make setup`; jobs
whose program is missing are left out.
Exit status: 1 when a result was wrong.")]
pub struct Arguments {
    /// Rounds to take medians over [default: 5, --quick: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: Option<u16>,
    /// Run this job only; may be repeated
    #[arg(long = "job", value_name = "JOB", value_parser = job)]
    jobs: Vec<Job>,
    /// The tree that programs work on [default: /usr/include]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    /// A small tree made for it, fewer rounds
    #[arg(long)]
    quick: bool,
    /// Directory on tmpfs for pools and files
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

fn job(text: &str) -> Result<Job, String> {
    Job::named(text).ok_or_else(|| {
        let names = Job::ALL.map(Job::name).join(", ");
        format!("there is no such job; use one of {names}")
    })
}

/// Measures, checks and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let library = preload::require()?;
    let usual = if arguments.quick {
        EverydayOptions::quick(library)
    } else {
        EverydayOptions::new(library)
    };
    let tree = arguments.tree.clone();
    let report = measured(|watch| {
        everyday::run(&EverydayOptions {
            rounds: arguments.rounds.map_or(usual.rounds, usize::from),
            jobs: match arguments.jobs[..] {
                [] => usual.jobs,
                _ => arguments.jobs.clone(),
            },
            source: tree.map_or(usual.source, Source::Directory),
            memory_directory: arguments.memory.clone(),
            watch,
            ..usual
        })
    })?;
    format.print(&report, EverydayReport::table)?;
    verdict(&report)
}

fn verdict(report: &EverydayReport) -> Outcome {
    for line in report.failures.iter().chain(&report.skipped) {
        output::complain(line);
    }
    match report.rows.iter().filter(|row| !row.verified).count() {
        0 => Ok(()),
        count => Err(Failure::new(format!(
            "{count} of {} jobs failed or left something wrong; see above",
            report.rows.len()
        ))),
    }
}
