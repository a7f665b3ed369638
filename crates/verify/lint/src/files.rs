//! The files of a source tree.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Directories that are no part of the source.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// All regular files below a directory, sorted.
pub(crate) fn below(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            let is_skipped = entry
                .file_name()
                .to_str()
                .is_some_and(|name| SKIPPED.contains(&name));
            if kind.is_dir() && !is_skipped {
                pending.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}
