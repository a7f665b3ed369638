//! `egeria pool drain`: move files off a pool while they are in use.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use egeria_engine::{AttachMode, AttachOptions, DrainReport, Volume};
use egeria_machine::{NamedPath, format_bytes};
use serde::Serialize;

use super::evacuation::{Evacuation, UnreadableArguments, drain, index_of};
use crate::owner;
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

/// Arguments of `egeria pool drain`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria pool drain /mnt/pmem2/pool
  egeria pool drain /mnt/pmem2/pool --end
  egeria pool drain /mnt/pmem2/pool --give-up --json > lost.json

Moves the data and logs of all files to the other pools, while the volume is in
use. From then on no new data goes to the pool, as long as the volume is in use
or until --end. Ctrl-C stops it; the same command goes on later. `egeria pool
remove` takes the drained pool out of the volume.
What cannot be read stays. With --give-up it is named, then zeros take its
place; in a file with checksums, reading it fails until it is written again.
The kernel's list of bad sectors of a device is used as --bad is.
Exit status: 0 when nothing is left on the pool, else 1.")]
pub struct Arguments {
    /// The pool to drain
    pool: PathBuf,
    /// Have new data go to the pool again
    #[arg(long, conflicts_with_all = ["bad", "give_up"])]
    end: bool,
    #[command(flatten)]
    unreadable: UnreadableArguments,
}

#[derive(Serialize)]
struct Document {
    volume: String,
    pool: u8,
    path: NamedPath,
    #[serde(flatten)]
    evacuation: Evacuation,
}

/// Drains the pool.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    owner::run_as_owner(&arguments.pool)?;
    let options = AttachOptions::default();
    let volume = Volume::attach(&arguments.pool, AttachMode::CreateOrJoin, &options)?;
    let pool = index_of(&volume, &arguments.pool)?;
    let evacuation = if arguments.end {
        volume.end_drain(pool);
        Evacuation {
            drained: false,
            ..Evacuation::of(DrainReport::default(), Vec::new())
        }
    } else {
        drain(&volume, &arguments.pool, &arguments.unreadable)?
    };
    let is_done = arguments.end || evacuation.drained;
    let document = Document {
        volume: volume.uuid().to_string(),
        pool,
        path: arguments.pool.clone().into(),
        evacuation,
    };
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

fn human(document: &Document) -> String {
    let evacuation = &document.evacuation;
    let moved = format_bytes(evacuation.moved_bytes);
    let path = &document.path;
    if evacuation.drained {
        return format!(
            "{path} is drained, {moved} were moved; when the volume is not in use: egeria pool remove {path}"
        );
    }
    if evacuation.stopped {
        return format!("stopped after {moved}; to go on: egeria pool drain {path}");
    }
    if evacuation.left.is_empty() {
        return format!(
            "{path} is not drained yet, {moved} were moved; to go on: egeria pool drain {path}"
        );
    }
    format!(
        "{}{path} is not drained, {moved} were moved; `egeria scrub` names damaged files, --give-up leaves what cannot be read",
        evacuation.left_lines()
    )
}
