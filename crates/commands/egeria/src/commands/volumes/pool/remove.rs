//! `egeria pool remove`: a volume without one of its pools.

use std::path::PathBuf;

use clap::Args;
use egeria_engine::remove_pool;
use egeria_machine::{NamedPath, format_bytes};
use serde::Serialize;

use super::until_stopped::until_stopped;
use crate::owner;
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;

/// Arguments of `egeria pool remove`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria pool remove /mnt/pmem2/pool
  egeria pool remove /mnt/pmem2/pool --json

The volume must not be mounted or in use. What is still on the pool is moved to
the others first; `egeria pool drain` does that earlier, while it is in use.
Inodes keep their numbers. An interruption leaves the volume with the pool or
without it; then give the same command again. Pool 0, which has the journal,
stays. The file or device of the pool is left, without a volume on it.")]
pub struct Arguments {
    /// The pool to remove
    pool: PathBuf,
}

#[derive(Serialize)]
struct Document {
    volume: String,
    pool: u8,
    path: NamedPath,
    moved_bytes: u64,
}

/// Removes the pool.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    owner::run_as_owner(&arguments.pool)?;
    let removed = until_stopped("removing the pool", |go_on| {
        remove_pool(&arguments.pool, go_on)
    })?;
    let document = Document {
        volume: removed.volume.to_string(),
        pool: removed.pool,
        path: removed.path.into(),
        moved_bytes: removed.moved_blocks * egeria_media::BLOCK_BYTES,
    };
    format.print(&document, |document| {
        format!(
            "{} is no pool of volume {} any more; {} were moved off it",
            document.path,
            document.volume,
            format_bytes(document.moved_bytes)
        )
    })
}
