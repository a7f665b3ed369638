//! `egeria check`: verify a volume wholly, repair what can be repaired.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use egeria_fs::{CheckReport, check_volume};
use serde::Serialize;

use crate::failure::Outcome;
use crate::output::{self, Format};
use crate::progress::Progress;

/// Arguments of `egeria check`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria check /mnt/pmem0/pool
  egeria check /mnt/pmem0/pool --repair

The volume must not be mounted or in use.
Exit status: 0 when nothing is wrong (any more), else 1.")]
pub struct Arguments {
    /// Path of any pool of the volume
    pool: PathBuf,
    /// Repair what can be repaired
    #[arg(long)]
    repair: bool,
}

#[derive(Serialize)]
struct Document {
    pool: PathBuf,
    clean: bool,
    repaired: u64,
    inodes: u64,
    directories: u64,
    used_bytes: u64,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Finding {
    what: String,
    affects: String,
    repairable: bool,
    repaired: bool,
}

/// Checks, and says what was found.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let progress = Progress::bar(if arguments.repair {
        "checking and repairing"
    } else {
        "checking"
    });
    let report = check_volume(&arguments.pool, arguments.repair, &mut |done, total| {
        progress.advance(done, total)
    })?;
    drop(progress);
    let document = document_of(arguments, report);
    let status = if document.clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    format.print(&document, human)?;
    Ok(status)
}

fn document_of(arguments: &Arguments, report: CheckReport) -> Document {
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
        pool: arguments.pool.clone(),
        clean: findings.iter().all(|finding| finding.repaired),
        repaired: report.repaired,
        inodes: report.inodes,
        directories: report.directories,
        used_bytes: report.used_blocks * egeria_media::BLOCK_BYTES,
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
            finding.affects.clone(),
            finding.what.clone(),
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
    let mend = match (open, repairable) {
        (0, _) => "nothing is wrong any more".to_owned(),
        (open, 0) => format!("{open} left: copy what is still readable to another volume"),
        (open, _) => format!("{open} left: `egeria check --repair` mends {repairable}"),
    };
    format!("{table}\n{contents}; {mend}")
}
