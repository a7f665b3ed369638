//! The mounts of Egeria with the user who serves each. Everything else that the kernel lists about a mount was written
//! by that user.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use egeria_mount::{MountError, Mounted};

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    pub directory: PathBuf,
    /// What is mounted, as its user says.
    pub source: PathBuf,
    /// The user that serves it.
    pub user: u32,
    number: u64,
}

impl Served {
    /// Whether this user or root serves it: what others' mounts say leads where those others like.
    pub fn is_believed(&self) -> bool {
        self.user == 0 || self.user == rustix::process::geteuid().as_raw()
    }

    fn of(mount: Mounted) -> Option<Served> {
        Some(Served {
            directory: mount.directory,
            source: mount.source,
            user: mount.user?,
            number: mount.number,
        })
    }
}

/// The mounts of Egeria that this process can see.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn all() -> Result<Vec<Served>, MountError> {
    let mounts = egeria_mount::mounts()?.into_iter();
    Ok(mounts.filter_map(Served::of).collect())
}

/// The mount of Egeria that an open file is on.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn of_open(file: &File) -> Result<Option<Served>, MountError> {
    let facts = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd()));
    let facts = facts.unwrap_or_default();
    let number = facts.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    let number = number.and_then(|number| number.trim().parse().ok());
    let mut mounts = all()?.into_iter();
    Ok(mounts.find(|mount| Some(mount.number) == number))
}

/// The mount on exactly this directory (the topmost), without asking its server.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn at(directory: &Path) -> Result<Option<Served>, MountError> {
    let mut mounts = all()?.into_iter();
    Ok(mounts.rfind(|mount| mount.directory == directory))
}

/// A path from such an entry as it may be shown.
pub fn shown(path: &Path) -> String {
    egeria_cli::output::printable(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_on_no_mount_of_egeria_is_told_so() {
        assert_eq!(of_open(&File::open("/proc").unwrap()).unwrap(), None);
    }
}
