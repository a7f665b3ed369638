//! The regular files below a directory, of its file system only; links are not followed.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Entries looked at.
pub const MAX_ENTRIES: u64 = 1 << 20;

/// What was passed by.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Entries of all kinds.
    pub entries: u64,
    /// Directories that could not be read.
    pub unreadable: u64,
    /// Mounts below, which were left out.
    pub mounts: u64,
    /// There were more entries than [`MAX_ENTRIES`].
    pub is_cut: bool,
}

/// Calls `visit` for each file, once however many names it has.
///
/// # Errors
/// When the directory itself cannot be read, and those of `visit`.
pub fn walk<E: From<io::Error>>(
    root: &Path,
    mut visit: impl FnMut(&Path) -> Result<(), E>,
) -> Result<Walked, E> {
    let mut walked = Walked::default();
    let device = fs::metadata(root)?.dev();
    let mut linked = HashSet::new();
    let mut open = vec![fs::read_dir(root)?];
    let mut later: Vec<PathBuf> = Vec::new();
    loop {
        let Some(directory) = open.last_mut() else {
            // One directory is open at a time: depth and width cost only paths.
            match later.pop().map(fs::read_dir) {
                Some(Ok(directory)) => open.push(directory),
                Some(Err(_)) => walked.unreadable += 1,
                None => return Ok(walked),
            }
            continue;
        };
        let entry = match directory.next() {
            Some(Ok(entry)) => entry,
            Some(Err(_)) => {
                walked.unreadable += 1;
                open.pop();
                continue;
            }
            None => {
                open.pop();
                continue;
            }
        };
        walked.entries += 1;
        if walked.entries > MAX_ENTRIES {
            walked.is_cut = true;
            return Ok(walked);
        }
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if !kind.is_file() && !kind.is_dir() {
            continue;
        }
        let Ok(metadata) = fs::symlink_metadata(entry.path()) else {
            continue;
        };
        if metadata.dev() != device {
            walked.mounts += 1;
        } else if metadata.is_dir() {
            later.push(entry.path());
        } else if metadata.nlink() < 2 || linked.insert(metadata.ino()) {
            visit(&entry.path())?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_comes_once_and_links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/one"), "1").unwrap();
        fs::hard_link(root.join("a/b/one"), root.join("same")).unwrap();
        fs::write(root.join("two"), "2").unwrap();
        std::os::unix::fs::symlink("/etc", root.join("elsewhere")).unwrap();
        let mut found = 0;
        let walked = walk::<io::Error>(root, |_| {
            found += 1;
            Ok(())
        });
        assert_eq!(found, 2);
        let expected = Walked {
            entries: 6,
            ..Walked::default()
        };
        assert_eq!(walked.unwrap(), expected);
    }
}
