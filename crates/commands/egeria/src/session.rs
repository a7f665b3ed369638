//! Attaching volumes, and pools as tables and JSON show them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use egeria_engine::{AttachMode, AttachOptions, Volume};
use egeria_machine::NamedPath;
use serde::{Deserialize, Serialize};

use crate::owner;
use egeria_cli::failure::Outcome;
use egeria_cli::progress;

/// Attaches, with a spinner during a long recovery. Refuses a file that is no pool, and, as root, a pool of another
/// user: commands that should work on such a volume become its owner before (`owner::run_as_owner`).
///
/// # Errors
/// Those of the engine.
pub fn attach(pool: &Path, mode: AttachMode, options: &AttachOptions) -> Outcome<Arc<Volume>> {
    owner::check_own(pool)?;
    Ok(progress::spinning("attaching the volume", || {
        Volume::attach(pool, mode, options)
    })?)
}

/// One pool of a volume.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct PoolLabel {
    /// Index in the volume.
    pub pool: usize,
    /// Node it belongs to.
    pub node: u16,
    /// File or device.
    pub path: NamedPath,
}

/// The pools of a volume, in order of their index; without those that were removed.
pub fn pool_labels(volume: &Volume) -> Vec<PoolLabel> {
    let nodes = volume.pool_nodes();
    let paths = volume.pool_paths();
    let label = |(pool, (node, path)): (usize, (u16, PathBuf))| PoolLabel {
        pool,
        node,
        path: path.into(),
    };
    nodes
        .into_iter()
        .zip(paths)
        .enumerate()
        .map(label)
        .filter(|label| volume.has_pool(label.pool))
        .collect()
}
