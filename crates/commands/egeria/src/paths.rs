//! Paths as commands keep them: from the root, so that they mean the same in every process.

use std::path::{Path, PathBuf};

use egeria_cli::failure::{Failure, Outcome, reason};

/// The path from the root. Its last part need not exist, nor answer (a killed mount does not).
///
/// # Errors
/// When the directory it is in does not exist.
pub fn absolute(path: &Path) -> Outcome<PathBuf> {
    if let Ok(existing) = path.canonicalize() {
        return Ok(existing);
    }
    let Some(name) = path.file_name() else {
        return Err(Failure::new(format!(
            "{} does not exist; check the path",
            path.display()
        )));
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let canonical = directory.canonicalize().map_err(|error| {
        Failure::new(format!(
            "{} cannot be reached: {}: {}; check the path",
            path.display(),
            directory.display(),
            reason(&error)
        ))
    })?;
    Ok(canonical.join(name))
}
