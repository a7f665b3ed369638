//! `egeria pool drain`: move files off a pool while they are in use.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use egeria_engine::{AttachMode, AttachOptions, DrainReport, Volume};
use egeria_machine::{NamedPath, format_bytes};
use serde::Serialize;

use super::until_stopped::until_stopped;
use crate::owner;
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;

/// Arguments of `egeria pool drain`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria pool drain /mnt/pmem2/pool
  egeria pool drain /mnt/pmem2/pool --end

Moves the data and logs of all files to the other pools, while the volume is in
use. From then on no new data goes to the pool, as long as the volume is in use
or until --end. Ctrl-C stops it; the same command goes on later. `egeria pool
remove` takes the drained pool out of the volume.
Exit status: 0 when nothing is left on the pool, else 1.")]
pub struct Arguments {
    /// The pool to drain
    pool: PathBuf,
    /// Have new data go to the pool again
    #[arg(long)]
    end: bool,
}

#[derive(Serialize)]
struct Document {
    volume: String,
    pool: u8,
    path: NamedPath,
    moved_bytes: u64,
    drained: bool,
    /// Whether a signal stopped it.
    stopped: bool,
    /// Inodes that could not be moved, at most 20.
    left: Vec<Left>,
}

#[derive(Serialize)]
struct Left {
    ino: u64,
    why: String,
}

/// Drains the pool.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    owner::run_as_owner(&arguments.pool)?;
    let options = AttachOptions::default();
    let volume = Volume::attach(&arguments.pool, AttachMode::CreateOrJoin, &options)?;
    let pool = volume.pool_at(&arguments.pool).ok_or_else(|| {
        Failure::new(format!(
            "{} was moved just now; try again",
            arguments.pool.display()
        ))
    })?;
    let report = if arguments.end {
        volume.end_drain(pool);
        None
    } else {
        Some(until_stopped("draining the pool", |go_on| {
            volume.drain(pool, go_on)
        })?)
    };
    let document = document_of(arguments, &volume, pool, report.unwrap_or_default());
    let is_done = arguments.end || document.drained;
    volume.detach();
    format.print(&document, |document| {
        if arguments.end {
            format!("new data goes to {} again", document.path)
        } else {
            human(document)
        }
    })?;
    Ok(if is_done {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn document_of(arguments: &Arguments, volume: &Volume, pool: u8, report: DrainReport) -> Document {
    let drained = !arguments.end && report.is_drained();
    let left = report.left.iter().map(|(ino, errno)| Left {
        ino: ino.0,
        why: errno.to_string(),
    });
    Document {
        volume: volume.uuid().to_string(),
        pool,
        path: arguments.pool.clone().into(),
        moved_bytes: report.moved_blocks * egeria_media::BLOCK_BYTES,
        drained,
        stopped: report.is_stopped,
        left: left.collect(),
    }
}

fn human(document: &Document) -> String {
    let moved = format_bytes(document.moved_bytes);
    let path = &document.path;
    if document.drained {
        return format!(
            "{path} is drained, {moved} were moved; when the volume is not in use: egeria pool remove {path}"
        );
    }
    if document.stopped {
        return format!("stopped after {moved}; to go on: egeria pool drain {path}");
    }
    let lines = document.left.iter().map(|left| {
        let Left { ino, why } = left;
        format!("inode {ino} could not be moved: {why}\n")
    });
    let lines: String = lines.collect();
    if document.left.is_empty() {
        return format!(
            "{path} is not drained yet, {moved} were moved; to go on: egeria pool drain {path}"
        );
    }
    format!("{lines}{path} is not drained, {moved} were moved; `egeria scrub` names damaged files")
}
