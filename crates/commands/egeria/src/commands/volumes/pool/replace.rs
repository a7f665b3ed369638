//! `egeria pool replace`: another pool in place of one.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use egeria_engine::{
    AttachMode, AttachOptions, PoolRequest, Volume, VolumeError, add_pool, remove_pool,
};
use egeria_machine::{NamedPath, format_bytes};
use serde::Serialize;

use super::evacuation::{Evacuation, UnreadableArguments, drain, index_of};
use super::until_stopped::until_stopped;
use crate::commands::volumes::mkfs::{PoolDocument, parse_pool};
use crate::commands::volumes::placement;
use crate::{owner, paths};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_cli::progress;

/// Arguments of `egeria pool replace`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria pool replace /mnt/pmem1/pool --by 1:/mnt/pmem2/pool:64GiB
  egeria pool replace /mnt/pmem1/pool --by 1:/mnt/pmem2/pool:64GiB --give-up

Adds the new pool, drains the old one, and removes it. The volume must not be
mounted or in use; `egeria pool drain` moves most of it earlier, in use. What
cannot be read of the old pool stops the replacement, unless it is given up, as
in `egeria pool drain`. Ctrl-C and interruptions leave a whole volume with both
pools; then give the same command again. Pool 0 cannot be replaced.
Exit status: 0 when the old pool is removed, else 1.")]
pub struct Arguments {
    /// The pool that is replaced
    pool: PathBuf,
    /// The new pool: node, file or device, size
    #[arg(long, value_name = "NODE:PATH[:SIZE]", value_parser = parse_pool)]
    by: PoolRequest,
    #[command(flatten)]
    unreadable: UnreadableArguments,
    /// Overwrite a pool that holds another volume
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Document {
    volume: String,
    path: NamedPath,
    /// The new pool.
    by: PoolDocument,
    /// Whether the old pool is removed.
    replaced: bool,
    #[serde(flatten)]
    evacuation: Evacuation,
}

/// Replaces the pool.
pub fn run(arguments: Arguments, format: Format) -> Outcome<ExitCode> {
    let Arguments {
        pool: old,
        mut by,
        unreadable,
        force,
    } = arguments;
    owner::run_as_owner(&old)?;
    by.path = paths::absolute(&by.path)?;
    owner::check_own(&by.path)?;
    check_index(&old)?;
    let added = progress::spinning("adding the pool", || add_pool(&old, &by, force));
    let volume = match added {
        Ok(_) => {
            placement::prefer_nodes(std::slice::from_ref(&by));
            attach(&old)?
        }
        Err(refused) => added_before(&old, &by, refused)?,
    };
    let evacuation = drain(&volume, &old, &unreadable)?;
    let index = volume.pool_at(&by.path).unwrap_or_default();
    let uuid = volume.uuid();
    volume.detach();
    let replaced = evacuation.drained;
    if replaced {
        until_stopped("removing the pool", |go_on| remove_pool(&old, go_on))?;
    }
    let document = Document {
        volume: uuid.to_string(),
        path: old.into(),
        by: PoolDocument::of(usize::from(index), &by),
        replaced,
        evacuation,
    };
    format.print(&document, human)?;
    Ok(if replaced {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Refuses pool 0 before anything is changed.
fn check_index(pool: &Path) -> Outcome {
    let volume = attach(pool)?;
    let index = index_of(&volume, pool);
    volume.detach();
    if index? > 0 {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} is pool 0, which has the journal of the volume and stays; copy the files to another volume",
        pool.display()
    )))
}

fn attach(pool: &Path) -> Result<Arc<Volume>, VolumeError> {
    Volume::attach(pool, AttachMode::CreateOrJoin, &AttachOptions::default())
}

/// The volume that has the new pool already, because a replacement was interrupted; else why it was not added.
fn added_before(
    old: &Path,
    by: &PoolRequest,
    refused: VolumeError,
) -> Result<Arc<Volume>, VolumeError> {
    if refused.errno != libc::EEXIST {
        return Err(refused);
    }
    let volume = attach(old)?;
    let (old, new) = (volume.pool_at(old), volume.pool_at(&by.path));
    if new.is_some() && new != old {
        return Ok(volume);
    }
    volume.detach();
    Err(refused)
}

fn human(document: &Document) -> String {
    let Document { path, by, .. } = document;
    let evacuation = &document.evacuation;
    let moved = format_bytes(evacuation.moved_bytes);
    if document.replaced {
        return format!(
            "{} takes the place of {path} in volume {}; {moved} were moved",
            by.path, document.volume
        );
    }
    if evacuation.stopped {
        return format!("stopped after {moved}; to go on, give the same command again");
    }
    format!(
        "{}{path} is not replaced, {moved} were moved; `egeria scrub` names damaged files, --give-up leaves what cannot be read",
        evacuation.left_lines()
    )
}
