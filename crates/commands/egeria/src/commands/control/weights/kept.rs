//! What weights were before they were set: in a file, so that they can be restored after a crash.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use egeria_cli::failure::{Failure, Outcome};
use egeria_machine::{KernelWeights, MAX_NODES, NodeId};
use serde::{Deserialize, Serialize};

const FILE_NAME: &str = "weights.json";
const MAX_FILE_BYTES: u64 = 1 << 16;
const HINT: &str = "remove the file if the weights need not be restored";

/// Weights of the kernel, as they were.
#[derive(Serialize, Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Kept {
    /// Of this start of the machine: with the next, the kernel forgets weights.
    boot: String,
    pub(super) is_auto: Option<bool>,
    pub(super) nodes: Vec<(NodeId, u8)>,
}

impl Kept {
    /// Keeps these, unless some are kept since the machine started: the first are what was there.
    pub(super) fn keep(root: &Path, weights: &KernelWeights) -> Outcome<Kept> {
        if let Some(kept) = Kept::find(root)? {
            return Ok(kept);
        }
        let kept = Kept {
            boot: boot(root),
            is_auto: weights.is_auto,
            nodes: weights.nodes.clone(),
        };
        let path = path();
        kept.write(&path).map_err(|error| {
            let hint = "make the directory writable, or name another in EGERIA_STATE_DIR";
            Failure::io("keeping the weights in", &path, &error, hint)
        })?;
        Ok(kept)
    }

    /// Those that are kept since the machine started.
    pub(super) fn find(root: &Path) -> Outcome<Option<Kept>> {
        let path = path();
        let failure = |error: io::Error| Failure::io("reading", &path, &error, HINT);
        let Some(text) = egeria_files::read_trusted(&path, MAX_FILE_BYTES).map_err(failure)? else {
            return Ok(None);
        };
        let kept: Kept = serde_json::from_str(&text).map_err(|error| failure(error.into()))?;
        if kept.nodes.len() > MAX_NODES || kept.nodes.iter().any(|(_, weight)| *weight == 0) {
            return Err(failure(io::ErrorKind::InvalidData.into()));
        }
        Ok((kept.boot == boot(root)).then_some(kept))
    }

    pub(super) fn forget() -> Outcome {
        let path = path();
        let removed = std::fs::remove_file(&path);
        removed.map_err(|error| Failure::io("removing", &path, &error, HINT))
    }

    /// Written to another file and renamed, so that a crash leaves all or nothing.
    fn write(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("/"));
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        let directory = egeria_files::directory(directory)?;
        let aside = directory.join(format!(".{FILE_NAME}.{}", std::process::id()));
        let write = || {
            let file = egeria_files::create_private(&aside)?;
            serde_json::to_writer(&file, self)?;
            file.sync_all()?;
            std::fs::rename(&aside, path)
        };
        let written = write();
        if written.is_err() {
            let _ = std::fs::remove_file(&aside);
        }
        written
    }
}

fn path() -> PathBuf {
    egeria_files::state_directory().join(FILE_NAME)
}

fn boot(root: &Path) -> String {
    let id = std::fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"));
    id.unwrap_or_default().trim().to_owned()
}
