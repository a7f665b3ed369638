//! Directories to mount on that live as long as one process.

use rustix::mount::UnmountFlags;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::directory;
use egeria_files::{Error, Result};

/// Takes a mount away even when it is busy or its process is dead; users of it get `ENOTCONN`.
pub fn detach(directory: &Path) {
    if rustix::mount::unmount(directory, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW).is_err() {
        let mut helper = std::process::Command::new("fusermount3");
        helper.args(["-u", "-z", "-q", "--"]).arg(directory);
        let _ = helper
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status();
    }
}

/// An empty private directory to mount on, removed when dropped (never what is in it).
pub struct MountPoint {
    directory: PathBuf,
}

impl MountPoint {
    /// In the user's run-time directory, or in `/tmp` when others shall reach it. Another user's is not used,
    /// whatever the environment says: he could put a link there, and the mount would be where it leads.
    ///
    /// # Errors
    /// When no directory can be made there, or others could replace it.
    pub fn create(for_others: bool) -> Result<MountPoint> {
        let named = std::env::var_os("XDG_RUNTIME_DIR").filter(|_| !for_others);
        let private = named.and_then(|name| egeria_files::directory(Path::new(&name)).ok());
        let parent = private.unwrap_or_else(|| PathBuf::from("/tmp"));
        let failed = |error: io::Error| {
            let doing = format!("cannot make a mount point in {}", parent.display());
            Error::io(
                doing,
                error,
                "set XDG_RUNTIME_DIR to a directory of your own",
            )
        };
        let below = egeria_files::shared_directory(&parent).map_err(failed)?;
        let made = tempfile::Builder::new()
            .prefix(&directory::prefix())
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&below)
            .map_err(failed)?;
        egeria_files::directory(made.path()).map_err(failed)?;
        let directory = made.keep();
        if for_others {
            fs::set_permissions(&directory, Permissions::from_mode(0o755)).map_err(failed)?;
        }
        Ok(MountPoint { directory })
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }
}

impl Drop for MountPoint {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.directory);
    }
}
