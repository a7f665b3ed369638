//! `egeria upgrade`: the newest format for a volume, in place.

use std::path::PathBuf;

use clap::Args;
use egeria_engine::upgrade_volume;
use serde::Serialize;

use crate::owner;
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

/// Arguments of `egeria upgrade`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria upgrade /mnt/pmem0/pool
  egeria upgrade /mnt/pmem0/pool --json

The volume must not be mounted or in use. Files stay as and where they are. An
interruption leaves the old format or the new one; then give the command again.
Older releases refuse the volume afterwards. There is no way back: to go back
to an older release, copy the files to a volume that it made.")]
pub struct Arguments {
    /// Path of any pool of the volume
    pool: PathBuf,
}

#[derive(Serialize)]
struct Document {
    volume: String,
    /// Version of the format before, and now.
    from: u32,
    to: u32,
}

/// Upgrades the volume.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    owner::run_as_owner(&arguments.pool)?;
    let upgraded = upgrade_volume(&arguments.pool)?;
    let document = Document {
        volume: upgraded.volume.to_string(),
        from: upgraded.from,
        to: upgraded.to,
    };
    format.print(&document, |document| {
        let Document { volume, from, to } = document;
        if from == to {
            format!("volume {volume} has format version {to} already")
        } else {
            format!("volume {volume} has format version {to} now; it had {from}")
        }
    })
}
