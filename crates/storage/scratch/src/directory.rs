//! Directories that only their user can look into.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use egeria_files::{Error, Result};

/// Names of scratch directories and mount points begin with this; the process id follows.
pub(super) const SCRATCH_PREFIX: &str = "egeria-run-";

/// What names of scratch directories of this process begin with.
pub(super) fn prefix() -> String {
    format!("{}{}-", SCRATCH_PREFIX, std::process::id())
}

/// A directory in memory that is removed when dropped.
pub fn memory_directory(below: &Path) -> Result<TempDir> {
    private_directory(below).map_err(|error| {
        let doing = format!("cannot make a directory in {}", below.display());
        Error::io(doing, error, "name a writable tmpfs")
    })
}

fn private_directory(below: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new()
        .prefix(&prefix())
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(below)
}
