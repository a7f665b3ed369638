//! `egeria-conformance`: does a directory keep what POSIX and Linux promise?

use clap::Parser;
use egeria_conformance::{Case, all, process, run};
use std::path::PathBuf;
use std::process::ExitCode;

/// Check what POSIX and Linux promise of files, in a directory of any file system
///
/// Makes a directory inside, works there with ordinary system calls, and removes it. Run as root, it also
/// tries what other users may do; the file system must let them in.
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
        cases
            .iter()
            .for_each(|case| println!("{}", case.full_name()));
        return ExitCode::SUCCESS;
    };
    process::keep_panics();
    let tell = |outcome: &run::Outcome| {
        if !arguments.json {
            println!("{:8}{} {}", outcome.outcome, outcome.name, outcome.message);
        }
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
    match arguments.json {
        true => println!(
            "{}",
            serde_json::to_string_pretty(&report).expect("plain text")
        ),
        false => println!(
            "{} passed, {} failed, {} skipped",
            report.passed, report.failed, report.skipped
        ),
    }
    ExitCode::from(u8::from(report.failed > 0))
}

fn refuse(words: &str) -> ExitCode {
    eprintln!("egeria-conformance: {words}");
    ExitCode::from(2)
}
