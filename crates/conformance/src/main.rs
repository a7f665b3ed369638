//! `egeria-conformance`: does a directory keep what POSIX and Linux promise?

use clap::Parser;
use egeria_conformance::{Case, all, process, run};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Check what POSIX and Linux promise of files, in a directory of any file system
///
/// Makes a directory inside, works there with ordinary system calls, and removes it, also after Ctrl-C. Run as
/// root, it also tries what other users may do; the file system must let them in. Exit status: 1 when a case
/// failed, 2 when none could be run.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Where to run
    #[arg(required_unless_present = "list")]
    directory: Option<PathBuf>,
    /// Only cases whose name contains this
    #[arg(long, value_name = "NAME")]
    filter: Option<String>,
    /// Name the cases and run none
    #[arg(long)]
    list: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = arguments.filter.as_deref().unwrap_or("");
    let cases: Vec<&Case> = all()
        .filter(|case| case.full_name().contains(filter))
        .collect();
    if cases.is_empty() {
        return refuse(&format!(
            "no case is named like {filter}; --list names them all"
        ));
    }
    let Some(directory) = arguments.directory.filter(|_| !arguments.list) else {
        let _ = cases.iter().try_for_each(|case| say(&case.full_name()));
        return ExitCode::SUCCESS;
    };
    process::keep_panics();
    process::note_interruption();
    let tell = |outcome: &run::Outcome| {
        let line = format!("{:8}{} {}", outcome.outcome, outcome.name, outcome.message);
        let is_read = arguments.json || say(&line).is_ok();
        is_read && !process::is_interrupted()
    };
    let report = match run::run(&directory, cases.into_iter(), tell) {
        Ok(report) => report,
        Err(error) => {
            let place = directory.display();
            return refuse(&format!(
                "{place}: {error}; name a directory that can be written"
            ));
        }
    };
    let text = match arguments.json {
        true => serde_json::to_string_pretty(&report).expect("plain text"),
        false => format!(
            "{} passed, {} failed, {} skipped",
            report.passed, report.failed, report.skipped
        ),
    };
    let is_read = say(&text).is_ok();
    if let Some(left) = &report.left {
        let _ = writeln!(
            io::stderr(),
            "egeria-conformance: {left}; remove it by hand"
        );
    }
    match () {
        () if process::is_interrupted() => ExitCode::from(128 + libc::SIGINT as u8),
        () if !is_read => ExitCode::from(128 + libc::SIGPIPE as u8),
        () => ExitCode::from(u8::from(report.failed > 0)),
    }
}

/// A line for who reads the output, if anybody still does.
fn say(line: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

fn refuse(words: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "egeria-conformance: {words}");
    ExitCode::from(2)
}
