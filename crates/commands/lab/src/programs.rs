//! `egeria-lab programs`: unmodified programs on tmpfs, mount and library.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use egeria_bench::compatibility::{
    self, CompatibilityOptions, CompatibilityReport, Job, Place, ProgramRow,
};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use egeria_cli::preload;

use crate::bench::shared::measured;

/// Arguments of `egeria-lab programs`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria-lab programs --only sqlite,git
  sudo egeria-lab programs --install --json > rows.json
  egeria-lab programs --only postgresql --on library --seconds 20
  egeria-lab programs --job mine.sh --trace

Each program works in a directory on tmpfs, on a volume's mount, and on a
volume under the preload library. Its own consistency check looks at the
result. If it promises to survive that, it is killed in the middle, and all
that it had acknowledged must be there. Then `egeria check` looks at the volume.
Root runs programs as nobody (databases refuse root), but those that need root.
What is not installed is named and left out. All of it: some 30 minutes.
JSON rows: program, version, kind, job, tmpfs, mount, library (works,
works_through_the_mount, does_not, not_installed, not_run), killed (survives,
loses), speed_of_tmpfs (mount, library), tmpfs_s, direct_share, checks,
survives, note, failed.
Exit status: 1 when a program failed or lost something that should not.")]
pub struct Arguments {
    /// Run these only; may be repeated
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Run on this place only: tmpfs, mount, library; may be repeated
    #[arg(long, value_name = "PLACE", value_delimiter = ',', value_parser = place)]
    on: Vec<Place>,
    /// How long a program works before it is killed, s
    #[arg(long, value_name = "N", default_value = "3", value_parser = seconds)]
    seconds: Duration,
    /// Install what is missing, from Debian, PyPI, npm and crates.io
    #[arg(long)]
    install: bool,
    /// Where programs of PyPI, npm and crates.io are [default: /opt/egeria-programs for root, else
    /// ~/.cache/egeria-programs]
    #[arg(long, value_name = "DIR")]
    tools: Option<PathBuf>,
    /// Run this job file instead of the built-in ones; may be repeated
    #[arg(long = "job", value_name = "FILE", conflicts_with = "only")]
    jobs: Vec<PathBuf>,
    /// Show the commands and the output of what fails
    #[arg(long)]
    trace: bool,
    /// Write a page in Markdown here
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Add the rows that an earlier run printed by --json, for programs that are not run now
    #[arg(long, value_name = "FILE")]
    rows: Option<PathBuf>,
    /// Directory on tmpfs for pools and files
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    memory: PathBuf,
}

fn place(text: &str) -> Result<Place, String> {
    Place::named(text).ok_or_else(|| {
        let names = Place::ALL.map(Place::name).join(", ");
        format!("there is no such place; use one of {names}")
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    const MOST: f64 = 3600.0;
    let wrong = || format!("a number of seconds from 0.1 to {MOST} is needed");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if (0.1..=MOST).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err(wrong())
    }
}

/// Runs them and prints rows.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let jobs = chosen(arguments)?;
    let usual = CompatibilityOptions::new(preload::require()?);
    let mut places = usual.places.clone();
    if !arguments.on.is_empty() {
        places.retain(|place| arguments.on.contains(place));
    }
    let earlier = arguments.rows.as_deref().map(earlier).transpose()?;
    let mut report = measured(|watch| {
        compatibility::run(&CompatibilityOptions {
            jobs,
            places,
            load: arguments.seconds,
            install: arguments.install,
            trace: arguments.trace,
            tools_directory: arguments.tools.clone(),
            memory_directory: arguments.memory.clone(),
            watch,
            ..usual
        })
    })?;
    if let Some(earlier) = earlier {
        report.complete(earlier);
    }
    if let Some(path) = &arguments.page {
        output::write_page(path, &compatibility::page(&report))?;
    }
    format.print(&report, CompatibilityReport::table)?;
    verdict(&report)
}

/// What an earlier run found.
fn earlier(path: &Path) -> Outcome<CompatibilityReport> {
    const HINT: &str = "name a file that `egeria-lab programs --json` wrote";
    let text =
        std::fs::read_to_string(path).map_err(|error| Failure::io("read", path, &error, HINT))?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("{}: {error}; {HINT}", path.display())))
}

fn chosen(arguments: &Arguments) -> Outcome<Vec<Job>> {
    if !arguments.jobs.is_empty() {
        let read = |path: &PathBuf| Job::read(path).map_err(Failure::new);
        return arguments.jobs.iter().map(read).collect();
    }
    let mut jobs = compatibility::jobs();
    let unknown = |name: &&String| jobs.iter().all(|job| job.name != **name);
    if let Some(name) = arguments.only.iter().find(unknown) {
        let names: Vec<String> = jobs.into_iter().map(|job| job.name).collect();
        return Err(Failure::Usage(format!(
            "there is no program {name}; use some of {}",
            names.join(", ")
        )));
    }
    if !arguments.only.is_empty() {
        jobs.retain(|job| arguments.only.contains(&job.name));
    }
    Ok(jobs)
}

fn verdict(report: &CompatibilityReport) -> Outcome {
    for row in report.rows.iter().filter(|row| row.is_left_out()) {
        output::complain(&format!("{}: left out: {}", row.job, row.note));
    }
    let failed: Vec<&ProgramRow> = report.rows.iter().filter(|row| row.failed).collect();
    for row in &failed {
        output::complain(&format!("{}: {}", row.job, row.note));
    }
    match failed.len() {
        0 => Ok(()),
        count => Err(Failure::new(format!(
            "{count} of {} programs failed; see above, and --only NAME --trace",
            report.rows.len()
        ))),
    }
}
