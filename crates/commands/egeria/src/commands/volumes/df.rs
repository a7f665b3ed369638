//! `egeria df`: space, pool by pool.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use egeria_engine::{AttachMode, AttachOptions, SpaceReport, Volume};
use egeria_machine::{NamedPath, format_bytes};
use egeria_media::BLOCK_BYTES;
use serde::Serialize;

use crate::control;
use crate::served::{self, Served};
use crate::session::{self, PoolLabel};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};

/// A volume that says nothing for so long is left out when all are asked.
const PATIENCE: Duration = Duration::from_secs(3);

/// Arguments of `egeria df`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria df                       every volume that this user mounted
  egeria df /mnt                  the volume mounted there
  egeria df /mnt/pmem0/pool       a volume, mounted or not

Asked by root, another user's volume is looked at as that user.")]
pub struct Arguments {
    /// A pool of the volume, or a path on its mount (default: every volume this user mounted)
    #[arg(value_name = "POOL|DIR")]
    of: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    volumes: Vec<VolumeSpace>,
    /// Mounts of other users: nothing of them was opened.
    left_out: Vec<LeftOut>,
}

#[derive(Serialize)]
struct LeftOut {
    directory: NamedPath,
    /// The user that serves it.
    user: u32,
}

#[derive(Serialize)]
struct VolumeSpace {
    volume: String,
    /// Directories it is mounted on.
    mounts: Vec<NamedPath>,
    /// Of these, mounts whose process was killed: nothing on them can be reached.
    dead_mounts: Vec<NamedPath>,
    #[serde(flatten)]
    total: Space,
    /// How long accesses of striped files are delegated, if they are.
    delegation: Option<Delegation>,
    pools: Vec<PoolSpace>,
}

#[derive(Serialize)]
struct Delegation {
    delegates_per_node: u8,
    min_read_bytes: u32,
    min_write_bytes: u32,
    /// Set by a person, not by a planner.
    by_hand: bool,
}

#[derive(Serialize)]
struct PoolSpace {
    /// Threads that may access it at once; any number without.
    limit_threads: Option<NonZeroU32>,
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

/// Shows the space of what was asked for; the status is 1 when a mounted volume cannot be opened, or its mount is dead.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let (asked, left_out) = match &arguments.of {
        None => mounted()?,
        Some(path) => (
            vec![Ok(space_of_pool(&control::pool_of(path)?)?)],
            Vec::new(),
        ),
    };
    let mut status = ExitCode::SUCCESS;
    let mut volumes = Vec::new();
    for answer in asked {
        match answer {
            Ok(volume) => volumes.push(volume),
            Err(failure) => status = failure.report(),
        }
    }
    let document = Document { volumes, left_out };
    for mount in &document.left_out {
        let directory = served::shown(&mount.directory);
        output::complain(&format!(
            "{directory} is left out, uid {} serves it; ask with `egeria df {directory}`",
            mount.user
        ));
    }
    format.print(&document, human)?;
    for volume in &document.volumes {
        for directory in &volume.dead_mounts {
            let shown = served::shown(directory);
            let line = format!(
                "the process that served {shown} was killed: nothing on it can be reached; `egeria umount {shown}`, then mount the volume again"
            );
            status = Failure::new(line).report();
        }
    }
    Ok(status)
}

/// Every mounted volume of this user. Mounts of other users may name anything as their source, and may block a process
/// that asks them for ever.
fn mounted() -> Outcome<(Vec<Outcome<VolumeSpace>>, Vec<LeftOut>)> {
    let own = rustix::process::geteuid().as_raw();
    let mut pools: Vec<PathBuf> = Vec::new();
    let mut left_out = Vec::new();
    for mount in mounts()? {
        if mount.user != own {
            left_out.push(LeftOut {
                directory: mount.directory.into(),
                user: mount.user,
            });
        } else if !pools.contains(&mount.source) {
            pools.push(mount.source);
        }
    }
    let spaces = pools.iter().map(|pool| space_soon(pool));
    Ok((spaces.collect(), left_out))
}

fn mounts() -> Outcome<Vec<Served>> {
    Ok(served::all()?)
}

/// The space of a pool's volume. It does not wait for a volume that hangs, because the others are worth showing.
fn space_soon(pool: &Path) -> Outcome<VolumeSpace> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let path = pool.to_owned();
    // If sending fails, the receiver has given up: the answer came too late.
    std::thread::spawn(move || drop(sender.send(space_of_pool(&path))));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| {
        Err(Failure::new(format!(
            "the volume of {} does not answer; see what its mount process waits for",
            pool.display()
        )))
    })
}

fn space_of_pool(pool: &Path) -> Outcome<VolumeSpace> {
    let volume = session::attach(pool, AttachMode::ReadOnly, &AttachOptions::default())?;
    report(&volume)
}

fn report(volume: &Volume) -> Outcome<VolumeSpace> {
    let space = |pool| Space::from(volume.space(pool));
    let pools = session::pool_labels(volume);
    let admission = volume.admission(false);
    let first = pools.first().map(|pool| pool.path.clone());
    let mounts = mounts()?
        .into_iter()
        .filter(|mount| mount.is_believed() && Some(&*mount.source) == first.as_deref());
    let mounts: Vec<PathBuf> = mounts.map(|mount| mount.directory).collect();
    let dead = mounts.iter().filter(|mount| egeria_mount::is_dead(mount));
    Ok(VolumeSpace {
        volume: volume.uuid().to_string(),
        dead_mounts: dead.cloned().map(Into::into).collect(),
        mounts: mounts.into_iter().map(Into::into).collect(),
        total: space(None),
        delegation: delegation(volume),
        pools: pools
            .into_iter()
            .map(|label| PoolSpace {
                space: space(Some(label.pool as u8)),
                limit_threads: admission.get(label.pool).and_then(|pool| pool.limit),
                label,
            })
            .collect(),
    })
}

fn delegation(volume: &Volume) -> Option<Delegation> {
    let (rule, by_hand) = volume.delegation();
    rule.map(|rule| Delegation {
        delegates_per_node: rule.delegates.get(),
        min_read_bytes: rule.min_read_bytes,
        min_write_bytes: rule.min_write_bytes,
        by_hand,
    })
}

/// What is unusual about how a volume is accessed, in lines.
fn remarks(volume: &VolumeSpace) -> Vec<String> {
    let limits = volume.pools.iter().filter_map(|pool| {
        let limit = pool.limit_threads?;
        let node = pool.label.node;
        Some(format!(
            "volume {}: at most {limit} threads at once access node {node}",
            volume.volume
        ))
    });
    let delegation = volume.delegation.as_ref().map(|delegation| {
        let sizes = [delegation.min_read_bytes, delegation.min_write_bytes];
        let [reads, writes] = sizes.map(|bytes| format_bytes(bytes.into()));
        format!(
            "volume {}: reads of {reads} and writes of {writes} and more of striped files are delegated, {} delegates per node{}",
            volume.volume,
            delegation.delegates_per_node,
            if delegation.by_hand { " (set by hand)" } else { "" }
        )
    });
    limits.chain(delegation).collect()
}

fn human(document: &Document) -> String {
    if document.volumes.is_empty() {
        return "you have no volume mounted; `egeria df POOL` shows one that is not".to_owned();
    }
    let mut rows = Vec::new();
    for volume in &document.volumes {
        let place = |mount: &NamedPath| {
            let is_dead = volume.dead_mounts.contains(mount);
            format!("{mount}{}", if is_dead { " (dead)" } else { "" })
        };
        let mounts: Vec<String> = volume.mounts.iter().map(place).collect();
        let place = if mounts.is_empty() {
            "not mounted".to_owned()
        } else {
            mounts.join(", ")
        };
        rows.push(row(&volume.volume, "all", &volume.total, place));
        for pool in &volume.pools {
            rows.push(row(
                "",
                &pool.label.node.to_string(),
                &pool.space,
                pool.label.path.to_string(),
            ));
        }
    }
    let mut text = output::table(
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
    );
    for line in document.volumes.iter().flat_map(remarks) {
        text.push('\n');
        text.push_str(&line);
    }
    text
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
