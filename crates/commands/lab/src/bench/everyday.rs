//! `egeria-lab bench everyday`: everyday programs over a tree of files.

use std::path::PathBuf;

use clap::Args;
use egeria_bench::PlacesOptions;
use egeria_bench::everyday::{self, EverydayReport, Job, Selection, Source};

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};

use super::shared::Places;

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
JSON rows: job, tmpfs_s, run_s, mount_s, loopback_s, spread, verified.
Needs the Debian packages ripgrep, rsync, git and python3: `make setup`; jobs
whose program is missing are left out.
Exit status: 1 when a result was wrong.")]
#[command(mut_arg("quick", |arg| arg.help("A small tree made for it, fewer rounds")))]
pub struct Arguments {
    /// Run this job only; may be repeated
    #[arg(long = "job", value_name = "JOB", value_parser = job)]
    jobs: Vec<Job>,
    /// The tree that programs work on [default: /usr/include]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,
    #[command(flatten)]
    places: Places,
}

fn job(text: &str) -> Result<Job, String> {
    Job::named(text).ok_or_else(|| {
        let names = Job::ALL.map(Job::name).join(", ");
        format!("there is no such job; use one of {names}")
    })
}

/// Measures, checks and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let usual = if arguments.places.quick {
        Source::Made
    } else {
        Source::Directory("/usr/include".into())
    };
    let tree = arguments.tree.clone().map(Source::Directory);
    let mut selection = Selection::all(tree.unwrap_or(usual));
    if !arguments.jobs.is_empty() {
        selection.jobs.clone_from(&arguments.jobs);
    }
    let measure = |options: &PlacesOptions<'_>| everyday::run(options, &selection);
    let report = arguments.places.run(measure)?;
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
