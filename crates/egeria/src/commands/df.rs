//! `egeria df`: space, pool by pool.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use egeria_fs::{AttachMode, AttachOptions, SpaceReport, Volume};
use egeria_machine::format_bytes;
use egeria_media::BLOCK_BYTES;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};
use crate::session::{self, PoolLabel};
use crate::{control, mounts};

/// A mount that says nothing for so long is left out when all are asked.
const PATIENCE: Duration = Duration::from_secs(3);

/// Arguments of `egeria df`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria df                       every mounted volume
  egeria df /mnt                  the volume mounted there
  egeria df /mnt/pmem0/pool       a volume, mounted or not")]
pub struct Arguments {
    /// A pool of the volume, or a path on its mount (default: every mounted volume)
    #[arg(value_name = "POOL|DIR")]
    of: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    volumes: Vec<VolumeSpace>,
}

#[derive(Serialize)]
struct VolumeSpace {
    volume: String,
    /// Directories it is mounted on, as far as they were asked for.
    mounts: Vec<PathBuf>,
    #[serde(flatten)]
    total: Space,
    pools: Vec<PoolSpace>,
}

#[derive(Serialize)]
struct PoolSpace {
    #[serde(flatten)]
    label: PoolLabel,
    #[serde(flatten)]
    space: Space,
}

#[derive(Serialize)]
struct Space {
    bytes: u64,
    used_bytes: u64,
    free_bytes: u64,
    inodes: u64,
    free_inodes: u64,
}

impl From<SpaceReport> for Space {
    fn from(report: SpaceReport) -> Space {
        Space {
            bytes: report.blocks.saturating_mul(BLOCK_BYTES),
            used_bytes: report
                .blocks
                .saturating_sub(report.free_blocks)
                .saturating_mul(BLOCK_BYTES),
            free_bytes: report.free_blocks.saturating_mul(BLOCK_BYTES),
            inodes: report.inodes,
            free_inodes: report.free_inodes,
        }
    }
}

/// Shows the space of what was asked for.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let volumes = match &arguments.of {
        None => mounted()?,
        Some(path) => vec![space_of(path)?],
    };
    format.print(&Document { volumes }, human)
}

/// Every mounted volume that can be asked; the others get a remark.
fn mounted() -> Outcome<Vec<VolumeSpace>> {
    let mut volumes: Vec<VolumeSpace> = Vec::new();
    for directory in mounts::directories()? {
        match space_soon(&directory) {
            Ok(space) => match volumes
                .iter_mut()
                .find(|other| other.volume == space.volume)
            {
                Some(known) => known.mounts.push(directory),
                None => volumes.push(space),
            },
            Err(failure) => drop(failure.report()),
        }
    }
    Ok(volumes)
}

/// As [`space_of`], but does not wait for a mount that hangs: the others are worth showing.
fn space_soon(directory: &Path) -> Outcome<VolumeSpace> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let path = directory.to_owned();
    std::thread::spawn(move || sender.send(space_of(&path)));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        Err(Failure::new(format!(
            "the mount on {} does not answer; see what its process waits for, or `egeria umount` it",
            directory.display()
        )))
    })
}

/// Of a pool, or of the mount that a path is on.
fn space_of(path: &Path) -> Outcome<VolumeSpace> {
    let on_mount = control::identify(path);
    let (pool, mounts) = match &on_mount {
        Ok(identity) => (identity.pool.as_path(), vec![path.to_owned()]),
        Err(_) if path.is_dir() => return Err(on_mount.unwrap_err()),
        Err(_) => (path, Vec::new()),
    };
    let volume = session::attach(pool, AttachMode::ReadOnly, &AttachOptions::default())?;
    Ok(report(&volume, mounts))
}

fn report(volume: &Volume, mounts: Vec<PathBuf>) -> VolumeSpace {
    let space = |pool| Space::from(volume.space(pool));
    let pools = session::pool_labels(volume);
    VolumeSpace {
        volume: volume.uuid().to_string(),
        mounts,
        total: space(None),
        pools: pools
            .into_iter()
            .map(|label| PoolSpace {
                space: space(Some(label.pool as u8)),
                label,
            })
            .collect(),
    }
}

fn human(document: &Document) -> String {
    if document.volumes.is_empty() {
        return "no volume is mounted; `egeria df POOL` shows one that is not".to_owned();
    }
    let mut rows = Vec::new();
    for volume in &document.volumes {
        let mounts: Vec<String> = volume
            .mounts
            .iter()
            .map(|mount| mount.display().to_string())
            .collect();
        let place = if mounts.is_empty() {
            "(not asked through a mount)".to_owned()
        } else {
            mounts.join(", ")
        };
        rows.push(row(&volume.volume, "all", &volume.total, place));
        for pool in &volume.pools {
            rows.push(row(
                "",
                &pool.label.node.to_string(),
                &pool.space,
                pool.label.path.display().to_string(),
            ));
        }
    }
    output::table(
        &[
            "volume",
            ">node",
            ">size",
            ">used",
            ">free",
            ">used %",
            ">free inodes",
            "path",
        ],
        rows,
    )
}

fn row(volume: &str, node: &str, space: &Space, path: String) -> Vec<String> {
    let percent = 100.0 * space.used_bytes as f64 / space.bytes.max(1) as f64;
    vec![
        volume.to_owned(),
        node.to_owned(),
        format_bytes(space.bytes),
        format_bytes(space.used_bytes),
        format_bytes(space.free_bytes),
        format!("{percent:.0}"),
        space.free_inodes.to_string(),
        path,
    ]
}
