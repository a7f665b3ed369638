//! `egeria doctor`: what works on this machine, and a report for other people.

mod report;
mod works;

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use egeria_doctor::Facts;

use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use works::Document;

/// Arguments of `egeria doctor`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria doctor
  sudo egeria doctor
  egeria doctor --json | jq -r '.abilities[] | select(.fix) | .fix'
  sudo egeria doctor --report

It changes nothing. It tells what works for the user who starts it.
With --report it also observes programs for a minute and writes two files for
other people: a report, and a recording of what it saw. Neither has names of
programs, files, users or the host. With the recording other people can say
whether a steward would help: `egeria diagnose --trace egeria-report.trace`.
Exit status: 0 unless something fails; 1 then. What is limited or absent, as
persistent memory on a machine without any, does not fail. With --report: 0
once both files are written.")]
pub struct Arguments {
    #[command(flatten)]
    report: report::Arguments,
}

/// Shows what works, or writes a report.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    if let Some(path) = &arguments.report.report {
        return report::run(path, &arguments.report, format);
    }
    let document = Document::take(Facts::read(Path::new("/"))?);
    format.print(&document, works::human)?;
    Ok(if document.works {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
