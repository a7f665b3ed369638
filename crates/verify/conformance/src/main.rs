//! `egeria-conformance`: does a directory keep what POSIX and Linux promise?

#![forbid(unsafe_code)]

use clap::{Args, Parser, Subcommand, ValueEnum};
use egeria_conformance::random::actor::Mistake;
use egeria_conformance::{Case, all, process, random, run};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Check what POSIX and Linux promise of files, in a directory of any file system
///
/// Makes a directory inside, works there with ordinary system calls, and removes it, also after Ctrl-C. Run as
/// root, it also tries what other users may do; the file system must let them in. Exit status: 1 when a case
/// failed, 2 when none could be run.
#[derive(Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
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

#[derive(Subcommand)]
enum Command {
    /// Compare random programs with what another file system makes of them
    ///
    /// Programs of two threads or two processes map, load, store, read, write, append, truncate, allocate, rename
    /// and list, in turn; every answer must be that of the other file system. One in ten has them compete instead,
    /// each for what is its own: nothing may be lost. A program that differs is shown, as short as it still differs,
    /// with the number that makes it again. One that hangs is killed and shown, and the search goes on.
    /// Exit status: 1 when something differed, 2 when nothing could be run.
    Random(Random),
}

#[derive(Args)]
struct Random {
    /// Where to run
    directory: PathBuf,
    /// Directory of the file system that is right: a tmpfs
    #[arg(long, value_name = "DIRECTORY", default_value = "/dev/shm")]
    against: PathBuf,
    /// How many programs [default: 1000, without --minutes]
    #[arg(long, value_name = "N")]
    programs: Option<u64>,
    /// Number of the first program; the next has the next [default: from the clock]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// How long, minutes
    #[arg(long, value_name = "M", value_parser = positive)]
    minutes: Option<f64>,
    /// How long a program may take before it counts as hanging, seconds
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = positive)]
    limit: f64,
    /// Only those that take turns, or only those that compete
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Go wrong on purpose, to see that it is found
    #[arg(long, hide = true)]
    mistake: Option<Wrong>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Turns,
    Contests,
}

#[derive(Clone, Copy, ValueEnum)]
enum Wrong {
    LostWrites,
    Hang,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match arguments.command {
        Some(Command::Random(random)) => search(&random),
        None => run_cases(arguments),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.001..1e6).contains(number));
    number.ok_or_else(|| "a number above 0 is wanted".into())
}

fn options(arguments: &Random) -> random::Options {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH);
    let minutes = arguments.minutes.map(|minutes| minutes * 60.0);
    random::Options {
        seed: arguments
            .seed
            .unwrap_or_else(|| clock().map_or(1, |time| time.as_secs() * 1_000_000)),
        programs: arguments.programs.or(minutes.is_none().then_some(1_000)),
        time: minutes.map(Duration::from_secs_f64),
        limit: Duration::from_secs_f64(arguments.limit),
        shrinking: Duration::from_secs(10),
        kind: arguments.kind.map(|kind| match kind {
            Kind::Turns => random::Kind::Turns,
            Kind::Contests => random::Kind::Contests,
        }),
        mistake: arguments.mistake.map(|wrong| match wrong {
            Wrong::LostWrites => Mistake::LostWrites,
            Wrong::Hang => Mistake::Hang,
        }),
    }
}

fn search(arguments: &Random) -> ExitCode {
    process::keep_panics();
    process::note_interruption();
    let options = options(arguments);
    let tell = |difference: &random::Difference| {
        if !arguments.json {
            let _ = say(&difference.to_string());
        }
    };
    let (directory, against) = (&arguments.directory, &arguments.against);
    let goes_on = || !process::is_interrupted();
    let report = match random::search(directory, against, &options, tell, goes_on) {
        Ok(report) => report,
        Err(error) => {
            let places = format!("{}, {}", directory.display(), against.display());
            return refuse(&format!(
                "{places}: {error}; name two directories that can be written"
            ));
        }
    };
    let text = if arguments.json {
        serde_json::to_string_pretty(&report).expect("plain text")
    } else {
        report.to_string()
    };
    let is_read = say(&text).is_ok();
    tell_left(report.left.as_deref());
    ended(is_read, !report.differences.is_empty())
}

fn run_cases(arguments: Arguments) -> ExitCode {
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
    let text = if arguments.json {
        serde_json::to_string_pretty(&report).expect("plain text")
    } else {
        format!(
            "{} passed, {} failed, {} skipped",
            report.passed, report.failed, report.skipped
        )
    };
    let is_read = say(&text).is_ok();
    tell_left(report.left.as_deref());
    ended(is_read, report.failed > 0)
}

fn tell_left(left: Option<&str>) {
    if let Some(left) = left {
        let _ = writeln!(
            io::stderr(),
            "egeria-conformance: {left}; remove it by hand"
        );
    }
}

fn ended(is_read: bool, has_failed: bool) -> ExitCode {
    match () {
        () if process::is_interrupted() => ExitCode::from(128 + libc::SIGINT as u8),
        () if !is_read => ExitCode::from(128 + libc::SIGPIPE as u8),
        () => ExitCode::from(u8::from(has_failed)),
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
