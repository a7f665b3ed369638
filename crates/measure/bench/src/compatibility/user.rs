//! The user that programs run as.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use egeria_harness::process::separate_mounts;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};

use super::job::Job;

/// The number of `nobody`.
const NOBODY: u32 = 65_534;

/// The user of a job. Databases refuse root, so root runs most jobs as nobody.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum User {
    /// The user of this process.
    Same,
    Nobody,
}

impl User {
    /// `None`: the job needs root, and this process is not root's.
    pub(super) fn of(job: &Job) -> Option<User> {
        match (is_root(), job.needs_root) {
            (true, false) => Some(User::Nobody),
            (false, true) => None,
            (true, true) | (false, false) => Some(User::Same),
        }
    }

    /// The command runs as this user.
    pub(super) fn apply(self, command: &mut Command) {
        if self == User::Nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
    }

    /// What is at the path becomes this user's.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn own(self, path: &Path) -> io::Result<()> {
        match self {
            User::Same => Ok(()),
            User::Nobody => std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)),
        }
    }
}

/// Whether this process is root's.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// What is opened to mount.
const FUSE: &str = "/dev/fuse";

/// A device that nobody may open, in the place of the usual one, for this process and its children alone.
pub(super) struct OpenDevice {
    /// A tmpfs that has devices: `/dev/shm` has none.
    directory: PathBuf,
}

impl OpenDevice {
    /// `None`: ordinary users may open the usual one. Containers give it to root alone.
    ///
    /// # Errors
    /// When this process may not mount, or make devices.
    pub(super) fn make(directory: &Path) -> io::Result<Option<OpenDevice>> {
        let usual = fs::metadata(FUSE)?;
        if !is_root() || usual.mode() & 0o006 == 0o006 {
            return Ok(None);
        }
        separate_mounts()?;
        fs::create_dir(directory)?;
        mount(
            "none",
            directory,
            "tmpfs",
            MountFlags::NOSUID,
            None::<&CStr>,
        )?;
        let open = OpenDevice {
            directory: directory.to_owned(),
        };
        let device = directory.join("fuse");
        let mode = Mode::from_raw_mode(0o666);
        mknodat(CWD, &device, FileType::CharacterDevice, mode, usual.rdev())?;
        fs::set_permissions(&device, fs::Permissions::from_mode(0o666))?;
        mount_bind(&device, FUSE)?;
        Ok(Some(open))
    }
}

impl Drop for OpenDevice {
    fn drop(&mut self) {
        // They end with this process at the latest.
        let _ = unmount(FUSE, UnmountFlags::DETACH);
        let _ = unmount(&self.directory, UnmountFlags::DETACH);
    }
}
