//! Taking a mount away.

use crate::error::MountError;
use crate::{helper, holders, mountinfo};
use rustix::mount::UnmountFlags;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a busy mount is tried again before its holders are named: the kernel lets go of
/// just closed files a moment after `close` returns.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// Unmount. A mount somebody uses stays, and the error says who; one whose process died is
/// taken away whoever stands in it.
///
/// # Errors
/// [`MountError::NotMounted`]; [`MountError::Busy`] when somebody uses it; what the system or `fusermount3` says.
pub fn unmount(directory: &Path) -> Result<(), MountError> {
    let directory = ours(directory)?;
    let dead = is_dead(&directory);
    for attempt in 0..TRIES {
        match detach(&directory, dead) {
            Err(MountError::Busy { .. }) if attempt + 1 < TRIES => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
    Err(busy(&directory))
}

/// Take the mount point out of sight at once; the mount goes on for those who still use it.
pub(crate) fn unmount_lazily(directory: &Path) -> Result<(), MountError> {
    detach(&ours(directory)?, true)
}

/// Is the mount's process gone?
pub(crate) fn is_dead(directory: &Path) -> bool {
    std::fs::metadata(directory).is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN))
}

/// The mount point's absolute path, if it is a mount of ours.
fn ours(directory: &Path) -> Result<PathBuf, MountError> {
    let absolute = mountinfo::absolute(directory)
        .map_err(|_| MountError::NotMounted(directory.to_path_buf()))?;
    let mount = mountinfo::mounted_at(&absolute).map_err(mountinfo::unreadable)?;
    match mount {
        None => Err(MountError::NotMounted(absolute)),
        Some(mount) if mount.kind != mountinfo::OUR_KIND => Err(MountError::NotOurs {
            directory: absolute,
            kind: mount.kind,
        }),
        Some(_) => Ok(absolute),
    }
}

fn detach(directory: &Path, lazily: bool) -> Result<(), MountError> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazily);
    let Err(error) = rustix::mount::unmount(directory, flags) else {
        return Ok(());
    };
    let error = io::Error::from(error);
    match error.raw_os_error() {
        Some(libc::EBUSY) => Err(busy(directory)),
        Some(libc::EINVAL) => Err(MountError::NotMounted(directory.to_path_buf())),
        Some(libc::EPERM) => match helper::unmount(directory, lazily)? {
            helper::Unmounted::Done => Ok(()),
            helper::Unmounted::Busy => Err(busy(directory)),
        },
        _ => Err(MountError::System {
            what: format!("cannot unmount {}", directory.display()),
            hint: "see the kernel's log",
            source: error,
        }),
    }
}

fn busy(directory: &Path) -> MountError {
    let mounts = mountinfo::mounted().unwrap_or_default().into_iter();
    MountError::Busy {
        directory: directory.to_path_buf(),
        holders: holders::holders(directory),
        mounts: mounts
            .map(|mount| mount.directory)
            .filter(|path| path != directory && path.starts_with(directory))
            .collect(),
    }
}
