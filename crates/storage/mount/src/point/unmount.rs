//! Taking a mount away.

use crate::point::error::MountError;
use crate::point::place::Place;
use crate::point::{helper, holders, mountinfo};
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, kill_process, waitpid};
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a busy mount is tried again before its holders are named: the kernel lets go of
/// just closed files a moment after `close` returns.
const TRIES: u32 = 10;
const TRIES_UNSEEN: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// How long the process of a mount may take to show that it lives.
const ANSWER: Duration = Duration::from_secs(1);
/// Between looks at whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Unmount. A mount that is in use stays, and the error lists its holders. A mount whose server process died is
/// detached even if it is in use. Waits for no process that serves a mount.
///
/// # Errors
/// [`MountError::NotMounted`]; [`MountError::Busy`] when it is in use; errors of the system or of `fusermount3`.
pub fn unmount(directory: &Path) -> Result<(), MountError> {
    let point = ours(directory)?;
    let mut dead = None;
    for attempt in 0.. {
        let lazily = attempt > 0 && *dead.get_or_insert_with(|| is_dead(&point.directory));
        let outcome = detach(&point, lazily);
        // A mount without visible holders is busy only because of system calls, and these end.
        let tries = match &outcome {
            Err(MountError::Busy {
                holders, mounts, ..
            }) if holders.is_empty() && mounts.is_empty() => TRIES_UNSEEN,
            Err(MountError::Busy { .. }) => TRIES,
            _ => 0,
        };
        if attempt + 1 >= tries {
            return outcome;
        }
        std::thread::sleep(PAUSE);
    }
    Err(busy(&point.directory))
}

/// Detach the mount point at once. The mount goes on for processes that still use it.
///
/// # Errors
/// [`MountError::NotMounted`]; errors of the system or of `fusermount3`.
pub fn unmount_lazily(directory: &Path) -> Result<(), MountError> {
    detach(&ours(directory)?, true)
}

/// Whether the process that serves this mount is gone. A process that does not answer within a second counts as alive,
/// because it may be stopped.
pub fn is_dead(directory: &Path) -> bool {
    ask(directory) == Some(libc::ENOTCONN)
}

/// Whether the process that serves this mount answers within a second, or is dead. Any other request to a server that
/// hangs would block without limit.
pub fn answers(directory: &Path) -> bool {
    ask(directory).is_some()
}

/// The mount's answer to `statfs`, which the kernel always forwards: 0, or the error. `None` if there is no answer in
/// time.
///
/// A child process asks. A server that took a request and never answers blocks the asking thread for ever, and its
/// process could not end.
fn ask(directory: &Path) -> Option<i32> {
    let path = CString::new(directory.as_os_str().as_bytes()).ok()?;
    // SAFETY: the child makes only system calls and ends; the path is terminated and outlives them.
    let child = unsafe {
        match libc::fork() {
            0 => {
                // It may live longer than this process wants its files open.
                libc::close_range(3, u32::MAX, 0);
                let mut found = std::mem::zeroed();
                let failed = libc::statfs(path.as_ptr(), &mut found) != 0;
                let error = *libc::__errno_location();
                libc::_exit(if failed { error } else { 0 })
            }
            child => child,
        }
    };
    let child = Pid::from_raw(child).filter(|_| child > 0)?;
    if let Some(status) = ended_within(child, ANSWER) {
        return status.exit_status();
    }
    let _ = kill_process(child, Signal::KILL);
    // A child that cannot be killed is left to the process that adopts it.
    let _ = ended_within(child, PAUSE);
    None
}

fn ended_within(child: Pid, limit: Duration) -> Option<WaitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        match waitpid(Some(child), WaitOptions::NOHANG) {
            Ok(Some((_, status))) => return Some(status),
            Ok(None) | Err(rustix::io::Errno::INTR) if Instant::now() < deadline => {
                std::thread::sleep(LOOK_AGAIN);
            }
            _ => return None,
        }
    }
}

/// A mount of ours: its mount point and the parent directory, so that no process can replace the mount point.
struct Point {
    directory: PathBuf,
    parent: Place,
    name: OsString,
}

fn ours(directory: &Path) -> Result<Point, MountError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::PermissionDenied => MountError::NoPermission {
            directory: directory.to_path_buf(),
            cause: error.to_string(),
        },
        _ => MountError::NotMounted(directory.to_path_buf()),
    };
    let absolute = Place::open(directory).map_err(failed)?.path;
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(MountError::NotMounted(absolute));
    };
    let parent = Place::open(parent).map_err(failed)?;
    let (directory, name) = (parent.path.join(name), name.to_owned());
    let mount = mountinfo::mounted_at(&directory).map_err(mountinfo::unreadable)?;
    match mount {
        None => Err(MountError::NotMounted(directory)),
        Some(mount) if mount.kind != mountinfo::OUR_KIND => Err(MountError::NotOurs {
            directory,
            kind: mount.kind,
        }),
        Some(_) => Ok(Point {
            directory,
            parent,
            name,
        }),
    }
}

fn detach(point: &Point, lazily: bool) -> Result<(), MountError> {
    let directory = &point.directory;
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazily);
    let fixed = point.parent.fixed_path().join(&point.name);
    let Err(error) = rustix::mount::unmount(&fixed, flags) else {
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
