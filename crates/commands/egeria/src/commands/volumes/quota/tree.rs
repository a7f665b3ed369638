//! A directory tree with limits, and the volume that it is in.

use std::path::Path;
use std::sync::Arc;

use egeria_engine::{AttachMode, AttachOptions, FileKind, Quota, Volume};
use egeria_machine::{NamedPath, format_bytes};
use serde::Serialize;

use crate::control::{self, Identity};
use crate::session;
use egeria_cli::failure::{Failure, Outcome};

/// A directory tree with limits.
#[derive(Serialize)]
pub(super) struct Row {
    /// The directory at the top, from the root of the volume on.
    pub(super) directory: NamedPath,
    pub(super) ino: u64,
    /// `null`: no limit.
    pub(super) limit_bytes: Option<u64>,
    pub(super) used_bytes: u64,
    /// `null`: no limit.
    pub(super) limit_inodes: Option<u64>,
    pub(super) used_inodes: u64,
}

impl Row {
    pub(super) fn of(volume: &Volume, quota: &Quota) -> Row {
        Row {
            directory: volume.path_of_quota(quota).into(),
            ino: quota.top.0,
            limit_bytes: quota.limits.bytes,
            used_bytes: quota.used_bytes,
            limit_inodes: quota.limits.inodes,
            used_inodes: quota.used_inodes,
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.as_ref()
    }

    /// Usage and limits, in words.
    pub(super) fn text(&self) -> String {
        let bytes = match self.limit_bytes {
            Some(limit) => format!(
                "{} of {}",
                format_bytes(self.used_bytes),
                format_bytes(limit)
            ),
            None => format_bytes(self.used_bytes),
        };
        let inodes = match self.limit_inodes {
            Some(limit) => format!("{} of {limit} inodes", self.used_inodes),
            None => format!("{} inodes", self.used_inodes),
        };
        format!("{bytes}, {inodes}")
    }
}

/// The volume that a path on a mount belongs to, and what the path is there.
fn volume_of(path: &Path, mode: AttachMode) -> Outcome<(Arc<Volume>, Identity)> {
    let identity = control::identify(path)?;
    let volume = session::attach(&identity.pool, mode, &AttachOptions::default())?;
    if volume.uuid() != identity.volume {
        return Err(Failure::new(format!(
            "{} now holds another volume than the one mounted; unmount and mount again",
            identity.pool.display()
        )));
    }
    Ok((volume, identity))
}

/// As [`volume_of`], of a directory.
pub(in crate::commands::volumes) fn directory_at(path: &Path) -> Outcome<(Arc<Volume>, Identity)> {
    let (volume, identity) = volume_of(path, AttachMode::CreateOrJoin)?;
    match identity.kind {
        FileKind::Directory => Ok((volume, identity)),
        _ => Err(Failure::new(format!(
            "{} is no directory; name the directory at the top of the tree",
            path.display()
        ))),
    }
}

/// The error of the engine, with the path that it is about.
pub(super) fn refused(path: &Path, error: &egeria_engine::VolumeError) -> Failure {
    Failure::new(format!("{}: {}", path.display(), error.message))
}
