//! `egeria scrub`: read a whole volume while it is in use, and say what is damaged.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use egeria_engine::{AttachMode, AttachOptions, Finding, ScrubProgress, ScrubReport};
use egeria_machine::format_bytes;
use serde::Serialize;

use crate::control;
use crate::session;
use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format, printable};
use egeria_cli::progress::Progress;
use egeria_cli::signals::Signals;

/// Arguments of `egeria scrub`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria scrub /mnt
  egeria scrub /mnt/pmem0/pool --share 50
  egeria scrub /mnt --metadata-only --json

Programs go on using the volume meanwhile. Ctrl-C ends it with what was found
so far. What is found, `egeria check` looks at again once the volume is
unmounted, and repairs what can be repaired.
Exit status: 0 when all was read and nothing is wrong, else 1.")]
pub struct Arguments {
    /// A pool of the volume, or a path on its mount
    #[arg(value_name = "POOL|DIR")]
    of: PathBuf,
    /// Most of one CPU's time it takes, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    share: u32,
    /// Leave the content of files alone
    #[arg(long)]
    metadata_only: bool,
}

#[derive(Serialize)]
struct Document {
    volume: String,
    /// All was read and nothing is wrong.
    clean: bool,
    /// It was not ended before.
    complete: bool,
    inodes: u64,
    /// Of these, not read wholly, for want of memory.
    unread: u64,
    metadata_bytes: u64,
    data_bytes: u64,
    seconds: f64,
    findings: Vec<Found>,
}

#[derive(Serialize)]
struct Found {
    what: String,
    affects: String,
}

impl From<Finding> for Found {
    fn from(finding: Finding) -> Found {
        Found {
            what: finding.what,
            affects: finding.affects,
        }
    }
}

/// Works until everything was read, or a signal.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let signals = Signals::install()?;
    let pool = control::pool_of(&arguments.of)?;
    let volume = session::attach(&pool, AttachMode::ReadOnly, &AttachOptions::default())?;
    let progress = Progress::bar("scrubbing");
    let begin = Instant::now();
    let mut pace = Pace::new(arguments.share);
    let report = volume.scrub(!arguments.metadata_only, &mut |so_far: ScrubProgress| {
        progress.advance(so_far.inodes, so_far.all_inodes);
        pace.rest();
        match signals.check() {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    drop(progress);
    let document = document_of(volume.uuid().to_string(), report, begin.elapsed());
    format.print(&document, human)?;
    Ok(if document.clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Sleeps so that work is a share of the time. It sleeps without locks. A low scheduling priority would make programs
/// wait for a lock while its owner gets no CPU.
struct Pace {
    /// Sleep for each second of work.
    sleep_per_work: f64,
    owed: Duration,
    since: Instant,
}

/// Shorter sleeps are saved up.
const SHORTEST_SLEEP: Duration = Duration::from_millis(2);

impl Pace {
    fn new(share_percent: u32) -> Pace {
        let share = f64::from(share_percent.clamp(1, 100)) / 100.0;
        Pace {
            sleep_per_work: (1.0 - share) / share,
            owed: Duration::ZERO,
            since: Instant::now(),
        }
    }

    fn rest(&mut self) {
        self.owed += self.since.elapsed().mul_f64(self.sleep_per_work);
        if self.owed >= SHORTEST_SLEEP {
            std::thread::sleep(self.owed);
            self.owed = Duration::ZERO;
        }
        self.since = Instant::now();
    }
}

fn document_of(volume: String, report: ScrubReport, took: Duration) -> Document {
    Document {
        volume,
        clean: report.complete && report.unread == 0 && report.findings.is_empty(),
        complete: report.complete,
        inodes: report.inodes,
        unread: report.unread,
        metadata_bytes: report.metadata_bytes,
        data_bytes: report.data_bytes,
        seconds: took.as_secs_f64(),
        findings: report.findings.into_iter().map(Found::from).collect(),
    }
}

fn human(document: &Document) -> String {
    let read = format!(
        "{} inodes, {} of metadata and {} of data in {:.1} s",
        document.inodes,
        format_bytes(document.metadata_bytes),
        format_bytes(document.data_bytes),
        document.seconds
    );
    let mut ended = if document.complete {
        String::new()
    } else {
        " (ended before all was read)".to_owned()
    };
    if document.unread > 0 {
        let unread = document.unread;
        ended +=
            &format!("; {unread} inodes were not read for want of memory: free some, then again");
    }
    if document.findings.is_empty() {
        return format!("nothing wrong: {read}{ended}");
    }
    let rows = document.findings.iter();
    let rows = rows.map(|found| vec![printable(&found.affects), printable(&found.what)]);
    let table = output::table(&["where", "what"], rows.collect());
    let count = document.findings.len();
    format!(
        "{table}\n{read}{ended}; {count} wrong: copy off what is readable, then unmount and `egeria check`"
    )
}
