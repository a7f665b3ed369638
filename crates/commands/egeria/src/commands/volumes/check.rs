//! `egeria check`: verify a volume wholly, repair what can be repaired.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use egeria_engine::{CheckReport, Repair, check_volume, undo_repair};
use egeria_machine::NamedPath;
use serde::Serialize;

use crate::owner;
use egeria_cli::failure::Outcome;
use egeria_cli::output::{self, Format, printable};
use egeria_cli::progress::Progress;

/// Arguments of `egeria check`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria check /mnt/pmem0/pool
  egeria check /mnt/pmem0/pool --repair
  egeria check /mnt/pmem0/pool --undo /var/lib/egeria/undo-17637.bin

The volume must not be mounted or in use. The pools stay as they are unless
something is repaired; what a repair changes is kept in an undo file before.
Exit status: 0 when nothing is wrong (any more), else 1.")]
pub struct Arguments {
    /// Path of any pool of the volume
    pool: PathBuf,
    /// Repair what can be repaired
    #[arg(long)]
    repair: bool,
    /// Where a repair keeps what it changes; a new file (default: one in /var/lib/egeria)
    #[arg(long, value_name = "FILE", requires = "repair")]
    undo_file: Option<PathBuf>,
    /// Take a repair back: give the changed blocks the content of before
    #[arg(long, value_name = "FILE", conflicts_with = "repair")]
    undo: Option<PathBuf>,
}

/// Where undo files lie unless another place is named.
const UNDO_DIRECTORY: &str = "/var/lib/egeria";

#[derive(Serialize)]
struct Document {
    pool: NamedPath,
    clean: bool,
    repaired: u64,
    inodes: u64,
    directories: u64,
    used_bytes: u64,
    /// Where the blocks that the repair changed are kept; none when nothing was repaired.
    undo_file: Option<NamedPath>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct UndoDocument {
    pool: NamedPath,
    undo: NamedPath,
    restored_blocks: u64,
}

#[derive(Serialize)]
struct Finding {
    what: String,
    affects: String,
    repairable: bool,
    repaired: bool,
}

/// Checks, and says what was found; or takes a repair back.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    owner::run_as_owner(&arguments.pool)?;
    match &arguments.undo {
        Some(undo) => take_back(arguments, undo, format),
        None => check(arguments, format),
    }
}

fn take_back(arguments: &Arguments, undo: &Path, format: Format) -> Outcome<ExitCode> {
    let document = UndoDocument {
        pool: arguments.pool.clone().into(),
        undo: undo.into(),
        restored_blocks: undo_repair(&arguments.pool, undo)?,
    };
    format.print(&document, |document| {
        let (count, pool) = (document.restored_blocks, &document.pool);
        format!("{count} blocks are as before that repair; now: `egeria check {pool}`")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Where the undo file of a repair goes; `None` without a repair.
fn undo_file(arguments: &Arguments) -> Option<PathBuf> {
    if !arguments.repair || arguments.undo_file.is_some() {
        return arguments.undo_file.clone();
    }
    // Where it cannot be made, the repair says so, if there is anything to repair.
    let _ = std::fs::create_dir_all(UNDO_DIRECTORY);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.map_or(0, |since| since.as_nanos());
    Some(Path::new(UNDO_DIRECTORY).join(format!("undo-{nanoseconds}.bin")))
}

fn check(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let undo = undo_file(arguments);
    let repair = if arguments.repair {
        Repair::Yes {
            undo: undo.as_deref(),
        }
    } else {
        Repair::No
    };
    let progress = Progress::bar(if arguments.repair {
        "checking and repairing"
    } else {
        "checking"
    });
    let report = check_volume(&arguments.pool, repair, &mut |done, total| {
        progress.advance(done, total)
    })?;
    drop(progress);
    let document = document_of(arguments, report, undo);
    let status = if document.clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    format.print(&document, human)?;
    Ok(status)
}

fn document_of(arguments: &Arguments, report: CheckReport, undo: Option<PathBuf>) -> Document {
    let findings: Vec<Finding> = report
        .findings
        .into_iter()
        .map(|finding| Finding {
            what: finding.what,
            affects: finding.affects,
            repairable: finding.repairable,
            repaired: arguments.repair && finding.repairable,
        })
        .collect();
    Document {
        pool: arguments.pool.clone().into(),
        clean: findings.iter().all(|finding| finding.repaired),
        repaired: report.repaired,
        inodes: report.inodes,
        directories: report.directories,
        used_bytes: report.used_blocks * egeria_media::BLOCK_BYTES,
        undo_file: undo
            .filter(|undo| report.repaired > 0 && undo.exists())
            .map(Into::into),
        findings,
    }
}

fn human(document: &Document) -> String {
    let contents = format!(
        "{} inodes, {} of them directories, {} in use",
        document.inodes,
        document.directories,
        egeria_machine::format_bytes(document.used_bytes)
    );
    if document.findings.is_empty() {
        return format!("nothing wrong: {contents}");
    }
    let rows = document.findings.iter().map(|finding| {
        let state = match (finding.repaired, finding.repairable) {
            (true, _) => "repaired",
            (false, true) => "can be repaired",
            (false, false) => "cannot be repaired",
        };
        vec![
            printable(&finding.affects),
            printable(&finding.what),
            state.to_owned(),
        ]
    });
    let table = output::table(&["where", "what", "state"], rows.collect());
    let open = document
        .findings
        .iter()
        .filter(|finding| !finding.repaired)
        .count();
    let repairable = document
        .findings
        .iter()
        .filter(|finding| finding.repairable && !finding.repaired)
        .count();
    let hint = match (open, repairable) {
        (0, _) => "nothing is wrong any more".to_owned(),
        (open, 0) => format!("{open} left: copy what is still readable to another volume"),
        (open, repairable) => {
            let pool = &document.pool;
            format!("{open} left: `egeria check {pool} --repair` repairs {repairable}")
        }
    };
    let undo = document.undo_file.as_ref().map_or(String::new(), |undo| {
        let (pool, undo) = (&document.pool, undo);
        format!("\nto take the repair back: `egeria check {pool} --undo {undo}`")
    });
    format!("{table}\n{contents}; {hint}{undo}")
}
