//! The regular files below a directory, of its file system only; links are not followed.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// Entries looked at.
pub const MAX_ENTRIES: u64 = 1 << 20;

/// What was left out.
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

/// Calls `visit` for each file, once even if it has several names. Mounts below are found by asking only the kernel:
/// the file system that is mounted there may never answer.
///
/// # Errors
/// When the directory itself cannot be read, and those of `visit`.
pub fn walk<E: From<io::Error>>(
    root: &Path,
    mut visit: impl FnMut(&Path) -> Result<(), E>,
) -> Result<Walked, E> {
    let mut walked = Walked::default();
    let top: File = openat(CWD, root, DIRECTORY, Mode::empty())
        .map_err(io::Error::from)?
        .into();
    let mut entries = Dir::read_from(&top).map_err(io::Error::from)?;
    let mut directory = top.try_clone()?;
    let mut way = PathBuf::new();
    let mut linked = HashSet::new();
    let mut later: Vec<PathBuf> = Vec::new();
    loop {
        for entry in &mut entries {
            let Ok(entry) = entry else {
                walked.unreadable += 1;
                break;
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            walked.entries += 1;
            if walked.entries > MAX_ENTRIES {
                walked.is_cut = true;
                return Ok(walked);
            }
            let found = match entry.file_type() {
                FileType::RegularFile | FileType::Directory | FileType::Unknown => {
                    found(&directory, name)
                }
                _ => continue,
            };
            let path = way.join(OsStr::from_bytes(name.to_bytes()));
            match found {
                Found::Mount => walked.mounts += 1,
                Found::Directory => later.push(path),
                Found::File(None) => visit(&root.join(path))?,
                Found::File(Some(file)) if linked.insert(file) => visit(&root.join(path))?,
                Found::File(Some(_)) | Found::Other => {}
            }
        }
        // One directory is open at a time: depth and width cost only paths.
        (way, directory, entries) = loop {
            let Some(way) = later.pop() else {
                return Ok(walked);
            };
            let opened = below(&top, &way, DIRECTORY);
            let read = opened.and_then(|opened| Ok((Dir::read_from(&opened)?, opened)));
            match read {
                Ok((entries, opened)) => break (way, opened, entries),
                Err(_) => walked.unreadable += 1,
            }
        };
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// What an entry is.
enum Found {
    Mount,
    Directory,
    /// With its device and inode, where it has several names.
    File(Option<(u64, u64)>),
    /// Something else, or gone.
    Other,
}

fn found(directory: &File, name: &CStr) -> Found {
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    let opened = match below(directory, path, OFlags::PATH | OFlags::CLOEXEC) {
        Ok(opened) => opened,
        Err(Errno::XDEV) => return Found::Mount,
        Err(_) => return Found::Other,
    };
    match opened.metadata() {
        Ok(metadata) if metadata.is_dir() => Found::Directory,
        Ok(metadata) if metadata.is_file() => {
            let has_several = metadata.nlink() > 1;
            Found::File(has_several.then(|| (metadata.dev(), metadata.ino())))
        }
        _ => Found::Other,
    }
}

/// Opens an entry below a directory on the same mount; a mount point is `XDEV`. A link as the last part is opened
/// itself.
fn below(directory: &File, path: &Path, flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::NOFOLLOW;
    let stays = ResolveFlags::NO_XDEV | ResolveFlags::NO_MAGICLINKS;
    match openat2(directory, path, flags, Mode::empty(), stays) {
        // Before Linux 5.6, and in sandboxes that do not know the call.
        Err(Errno::NOSYS | Errno::PERM) => {
            // First as a path only: opening a mount point would ask its file system.
            let seen = openat(directory, path, OFlags::PATH | flags, Mode::empty())?.into();
            if mount_of(&seen) != mount_of(directory) {
                return Err(Errno::XDEV);
            }
            if flags.contains(OFlags::PATH) {
                Ok(seen)
            } else {
                Ok(openat(&seen, c".", flags, Mode::empty())?.into())
            }
        }
        opened => Ok(opened?.into()),
    }
}

/// The number of the mount that an open file is on.
fn mount_of(file: &File) -> Option<String> {
    let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
    let mount = facts
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?;
    Some(mount.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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
