//! `egeria pool add`: a volume grows by a pool.

use std::path::{Path, PathBuf};

use clap::Args;
use egeria_engine::{
    AddedPool, AttachMode, AttachOptions, PoolRequest, Volume, VolumeError, add_pool,
};
use egeria_machine::format_bytes;
use serde::Serialize;

use crate::commands::volumes::mkfs::{PoolDocument, parse_pool, survives};
use crate::commands::volumes::placement;
use crate::{owner, paths};
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_cli::progress;

/// Arguments of `egeria pool add`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria pool add /mnt/pmem0/pool --pool 2:/mnt/pmem2/pool:64GiB
  egeria pool add /dev/shm/a --pool 0:/dev/shm/c:1G --json

The volume may be in use. Then a pool can be as large as the largest one (or
1 GiB), and two can be added; programs use it as soon as they need space. Files
stay where they are; new data goes to the new pool from its node, or where the
other pools are full. An interruption leaves the volume with its old pools or
with the new one too; then give the same command again.")]
pub struct Arguments {
    /// Path of any pool of the volume
    #[arg(value_name = "POOL")]
    volume: PathBuf,
    /// The new pool: node, file or device, size
    #[arg(long = "pool", value_name = "NODE:PATH[:SIZE]", value_parser = parse_pool)]
    pool: PoolRequest,
    /// Overwrite a pool that holds another volume
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Document {
    volume: String,
    #[serde(flatten)]
    pool: PoolDocument,
}

/// Add it, also to a volume that is in use.
fn add(volume: &Path, pool: &PoolRequest, force: bool) -> Result<AddedPool, VolumeError> {
    let alone = add_pool(volume, pool, force);
    let in_use = match alone {
        Err(error) if error.errno == libc::EBUSY => error,
        added => return added,
    };
    match Volume::attach(volume, AttachMode::Join, &AttachOptions::default()) {
        Ok(volume) => volume.add_pool(pool, force),
        // The other process has detached, or checks the volume.
        Err(error) if matches!(error.errno, libc::ENOENT | libc::EAGAIN) => Err(in_use),
        Err(error) => Err(error),
    }
}

/// Adds the pool.
pub fn run(arguments: Arguments, format: Format) -> Outcome {
    let Arguments {
        volume,
        mut pool,
        force,
    } = arguments;
    owner::run_as_owner(&volume)?;
    pool.path = paths::absolute(&pool.path)?;
    owner::check_own(&pool.path)?;
    let added = progress::spinning("adding the pool", || add(&volume, &pool, force))?;
    placement::prefer_nodes(std::slice::from_ref(&pool));
    let document = Document {
        volume: added.volume.to_string(),
        pool: PoolDocument::of(usize::from(added.pool), &pool),
    };
    format.print(&document, |document| {
        let Document { volume, pool } = document;
        format!(
            "volume {volume} has pool {}: {} on node {}, {}; it survives {}",
            pool.pool,
            format_bytes(pool.bytes),
            pool.node,
            pool.path,
            survives(pool.persistence)
        )
    })
}
