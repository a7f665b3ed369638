//! Making the mount: the device descriptor whose other end is the mount point.
//!
//! fuser can mount too, but it unmounts by path when its session ends. That would hit another mount, if this one was
//! unmounted and its path was mounted again. It also hides the kernel's reasons in texts. So this crate mounts itself,
//! and gives fuser the descriptor.

use crate::kernel::negotiation::REQUEST_BYTES;
use crate::options::MountOptions;
use crate::point::error::MountError;
use crate::point::place::Place;
use crate::point::{helper, mountinfo, unmount};
use rustix::mount::MountFlags;
use std::ffi::{CString, OsStr};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A mount that is not served yet.
pub(crate) struct Endpoint {
    /// `/dev/fuse`, bound to the mount.
    pub device: OwnedFd,
    /// The mount point's absolute path.
    pub directory: PathBuf,
    /// Unmounts when this process dies.
    pub guardian: Option<helper::Guardian>,
}

/// Make the kernel read ahead as much as one request carries, after the connection has begun. Only root may do this;
/// for other users the kernel reads ahead as for a disk, by 128 KiB.
pub(crate) fn read_ahead_a_request(directory: &Path) {
    let ours = mountinfo::mounted_at(directory).ok().flatten();
    if let Some(ours) = ours.filter(|mount| mount.kind == mountinfo::OUR_KIND) {
        let setting = format!("/sys/class/bdi/{}/read_ahead_kb", ours.device);
        let _ = std::fs::write(setting, (REQUEST_BYTES >> 10).to_string());
    }
}

/// Mount an unserved file system at the directory. `source` is shown in `/proc/mounts`.
pub(crate) fn make(
    directory: &Path,
    source: &OsStr,
    options: &MountOptions,
) -> Result<Endpoint, MountError> {
    let place = usable(directory)?;
    let directory = place.path.clone();
    let root = rustix::process::geteuid().is_root();
    if options.trust_privileged_files && !root {
        return Err(MountError::NotRoot);
    }
    let device = OpenOptions::new().read(true).write(true).open("/dev/fuse");
    let device = device.map_err(MountError::NoFuse)?;
    if root && !options.auto_unmount {
        match mount_directly(&device, &place.fixed_path(), source, options) {
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

/// The path of a directory to mount on, without links; root follows no links of other users. The file system mounted
/// there is not asked.
///
/// # Errors
/// [`MountError::Missing`], [`MountError::NotADirectory`], [`MountError::DeadEndpoint`]; or why it cannot be reached.
pub fn mount_point(directory: &Path) -> Result<PathBuf, MountError> {
    open(directory).map(|place| place.path)
}

fn open(directory: &Path) -> Result<Place, MountError> {
    let named = || directory.to_path_buf();
    Place::open(directory).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => MountError::Missing(named()),
        io::ErrorKind::NotADirectory => MountError::NotADirectory(named()),
        _ if error.raw_os_error() == Some(libc::ENOTCONN) => MountError::DeadEndpoint(named()),
        _ => refused(named(), error),
    })
}

/// The mount point, if one can mount there.
fn usable(directory: &Path) -> Result<Place, MountError> {
    let place = open(directory)?;
    match mountinfo::mounted_at(&place.path) {
        Ok(Some(mount)) if mount.kind == mountinfo::OUR_KIND && unmount::is_dead(&place.path) => {
            Err(MountError::DeadEndpoint(place.path))
        }
        Ok(Some(mount)) => Err(MountError::AlreadyMounted {
            directory: place.path,
            kind: mount.kind,
        }),
        _ => Ok(place),
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

/// Mount with `mount(2)`, as only root may.
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
