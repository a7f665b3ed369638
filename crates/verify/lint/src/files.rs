//! The files and crates of a source tree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Directories that are no part of the source.
const SKIPPED: [&str; 2] = ["target", ".git"];

/// The crates of a source tree, by the name of their directory, wherever that is below `crates`.
///
/// # Errors
/// A directory that cannot be read; two crates whose directories have the same name.
pub fn crates(root: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.join("crates")];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.join("Cargo.toml").is_file() {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if let Some(other) = found.insert(name.into_owned(), path.clone()) {
                    let (one, other) = (path.display(), other.display());
                    return Err(io::Error::other(format!("{one} and {other} have one name")));
                }
            } else if path.is_dir() {
                pending.push(path);
            }
        }
    }
    Ok(found)
}

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
