//! The way to a file that is about to be written.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat, readlinkat};

use super::trust::{is_trusted, refused};

/// Links on one way, as the kernel has it.
const MAX_LINKS: usize = 40;

/// The directory that a file is or will be in, held open: what its path names later changes nothing.
pub struct Way {
    directory: File,
    name: OsString,
}

impl Way {
    /// Goes from directory to directory, through links that this user or root made, and through no others.
    ///
    /// # Errors
    /// Those of the kernel, and `PermissionDenied` that says which link is another user's.
    pub fn to(path: &Path) -> io::Result<Way> {
        let is_directory = path.as_os_str().as_bytes().ends_with(b"/");
        let name = path.file_name().filter(|_| !is_directory);
        let error = if path == Path::new("") {
            libc::ENOENT
        } else {
            libc::EISDIR
        };
        let name = name.ok_or_else(|| io::Error::from_raw_os_error(error))?;
        let parent = path.parent().unwrap_or(Path::new(""));
        Ok(Way {
            directory: followed(parent)?,
            name: name.to_owned(),
        })
    }

    /// A path of the file for as long as this lives.
    pub fn path(&self) -> PathBuf {
        let directory = format!("/proc/self/fd/{}", self.directory.as_raw_fd());
        Path::new(&directory).join(&self.name)
    }

    /// A path of its directory for as long as this lives.
    pub fn directory(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd()))
    }
}

fn followed(path: &Path) -> io::Result<File> {
    let mut at = open_directory(CWD, Path::new("."))?;
    let mut left: Vec<OsString> = parts(path);
    let mut links = 0;
    while let Some(part) = left.pop() {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next: File = openat(&at, &part, flags, Mode::empty())?.into();
        let metadata = next.metadata()?;
        if !metadata.is_symlink() {
            at = next;
            continue;
        }
        if !is_trusted(metadata.uid()) {
            let (part, owner) = (Path::new(&part).display(), metadata.uid());
            return Err(refused(format!(
                "{part} on the way to it is a link of another user's (uid {owner})"
            )));
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(io::Error::from_raw_os_error(libc::ELOOP));
        }
        let target = readlinkat(&next, c"", Vec::new())?;
        left.extend(parts(Path::new(OsStr::from_bytes(target.to_bytes()))));
    }
    Ok(at)
}

/// The parts of a path, the first one last. From the root on, the first is `/`, which opens the root wherever one is.
fn parts(path: &Path) -> Vec<OsString> {
    let parts = path.components().rev();
    parts.map(|part| part.as_os_str().to_owned()).collect()
}

pub(super) fn open_directory(at: impl AsFd, name: &Path) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?.into())
}
