//! Making the mount: the device descriptor whose other end is the mount point.
//!
//! fuser can mount too, but it unmounts by path when its session ends, also when somebody has
//! unmounted already and mounted anew there; and it hides the kernel's reasons in texts. So
//! this is ours, and fuser is given the descriptor.

use crate::error::MountError;
use crate::{MountOptions, helper, mountinfo, unmount};
use rustix::mount::MountFlags;
use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A mount that nobody serves yet.
pub(crate) struct Endpoint {
    /// `/dev/fuse`, bound to the mount.
    pub device: OwnedFd,
    /// The mount point's absolute path.
    pub directory: PathBuf,
    /// Unmounts when this process dies.
    pub guardian: Option<helper::Guardian>,
}

/// Mount an unserved file system at the directory. `source` is shown in `/proc/mounts`.
pub(crate) fn make(
    directory: &Path,
    source: &OsStr,
    options: &MountOptions,
) -> Result<Endpoint, MountError> {
    let directory = usable(directory)?;
    let root = rustix::process::geteuid().is_root();
    if options.trust_privileged_files && !root {
        return Err(MountError::NotRoot);
    }
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let device = device.map_err(MountError::NoFuse)?;
    if root && !options.auto_unmount {
        match mount_directly(&device, &directory, source, options) {
            Ok(()) => {
                return Ok(Endpoint {
                    device: device.into(),
                    directory,
                    guardian: None,
                });
            }
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {}
            Err(error) => return Err(refused(directory, error)),
        }
    }
    drop(device);
    let (device, guardian) = helper::mount(&directory, source, options)?;
    Ok(Endpoint {
        device,
        directory,
        guardian,
    })
}

/// The mount point's absolute path, if one can mount there.
fn usable(directory: &Path) -> Result<PathBuf, MountError> {
    if unmount::is_dead(directory) {
        return Err(MountError::DeadEndpoint(directory.to_path_buf()));
    }
    let metadata = std::fs::metadata(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::Missing(directory.to_path_buf()),
        _ => refused(directory.to_path_buf(), error),
    })?;
    if !metadata.is_dir() {
        return Err(MountError::NotADirectory(directory.to_path_buf()));
    }
    let absolute = std::fs::canonicalize(directory)
        .map_err(|error| refused(directory.to_path_buf(), error))?;
    match mountinfo::mounted_at(&absolute) {
        Ok(Some(mount)) => Err(MountError::AlreadyMounted {
            directory: absolute,
            kind: mount.kind,
        }),
        _ => Ok(absolute),
    }
}

fn refused(directory: PathBuf, error: io::Error) -> MountError {
    match error.kind() {
        io::ErrorKind::PermissionDenied => MountError::NoPermission {
            directory,
            cause: error.to_string(),
        },
        _ => MountError::System {
            what: format!("cannot mount at {}", directory.display()),
            hint: "see the kernel's log, or name another directory",
            source: error,
        },
    }
}

/// `mount(2)`, as only root may.
fn mount_directly(
    device: &File,
    directory: &Path,
    source: &OsStr,
    options: &MountOptions,
) -> io::Result<()> {
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let data = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},default_permissions{}",
        device.as_raw_fd(),
        if options.allow_other {
            ",allow_other"
        } else {
            ""
        },
    );
    let data = CString::new(data)?;
    let kind = mountinfo::OUR_KIND;
    rustix::mount::mount(source, directory, kind, flags(options), data.as_c_str())?;
    Ok(())
}

/// The volume keeps access times only on request, and the mount says so.
fn flags(options: &MountOptions) -> MountFlags {
    let mut flags = MountFlags::NOATIME;
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    if !options.trust_privileged_files {
        flags |= MountFlags::NOSUID | MountFlags::NODEV;
    }
    flags
}
