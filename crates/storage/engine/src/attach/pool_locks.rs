//! Locks on pools: they show which processes have a volume attached, and which process makes its session.
//!
//! Two bytes far behind the end of a pool are locked through open file descriptions. The mapping keeps these alive, so
//! no descriptor stays open. Every attached process holds `ATTACHED` of every pool shared; it is held exclusively
//! while a session is made. `CREATING`, of pool 0, serialises the making of sessions. The locks of a process end when
//! it dies.

use crate::attach::pools::Found;
use crate::requests::VolumeError;
use crate::requests::{failure, io_failure};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) const CREATING: i64 = 0x4000_0000_0000_0000;
pub(crate) const ATTACHED: i64 = CREATING + 1;
/// How often to try again, because a process that is detaching may still hold the lock.
const LEAVE_TRIES: usize = 100;
/// How long to wait for a process that makes a session or checks the volume.
static ATTACH_PATIENCE_MS: AtomicU64 = AtomicU64::new(10_000);
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

fn lock_of(byte: i64, kind: i32) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: byte,
        l_len: 1,
        l_pid: 0,
    }
}

/// Run a lock command on an open file description; the answer is in `range`.
fn description_lock(file: &File, command: i32, range: &mut libc::flock) -> i32 {
    // SAFETY: an open descriptor and a lock that outlives the call.
    unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(range)) }
}

pub(crate) fn lock_byte(file: &File, byte: i64, kind: i32) -> std::io::Result<bool> {
    match description_lock(file, libc::F_OFD_SETLK, &mut lock_of(byte, kind)) {
        0 => Ok(true),
        _ => match std::io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
            error => Err(error),
        },
    }
}

/// Whether the volume is attached, or its session being made, through any other open file.
pub(crate) fn is_attached_elsewhere(file: &File) -> bool {
    let mut range = lock_of(ATTACHED, libc::F_WRLCK);
    let asked = description_lock(file, libc::F_OFD_GETLK, &mut range);
    asked == 0 && range.l_type != libc::F_UNLCK as i16
}

/// Set for this process how long attaching waits for another process that makes the session or checks the volume. The
/// default is 10 s.
pub fn set_attach_patience(limit: Duration) {
    let limit = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    ATTACH_PATIENCE_MS.store(limit, Ordering::Relaxed);
}

/// Lock a byte of pool 0, waiting for a process that makes a session. The wait is limited, because that process may be
/// stopped.
pub(crate) fn lock_soon(file: &File, path: &Path, byte: i64, kind: i32) -> Result<(), VolumeError> {
    let patience = Duration::from_millis(ATTACH_PATIENCE_MS.load(Ordering::Relaxed));
    let began = Instant::now();
    loop {
        if lock_byte(file, byte, kind).map_err(|error| unlockable(path, &error))? {
            return Ok(());
        }
        if began.elapsed() >= patience {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Err(failure(
        libc::EAGAIN,
        format!(
            "the volume of {} is still being attached or checked by another process; try again, or end that one",
            path.display()
        ),
    ))
}

pub(crate) fn unlockable(path: &Path, error: &std::io::Error) -> VolumeError {
    io_failure(
        "lock pool",
        path,
        error,
        "pools must lie on a file system with locks",
    )
}

/// Lock all pools after the first too: no pool is used by two volumes.
pub(crate) fn lock_siblings(found: &Found, kind: i32) -> Result<(), VolumeError> {
    for (file, path) in found.files.iter().zip(&found.paths).skip(1) {
        let Some(file) = file else { continue };
        let locked = lock_byte(file, ATTACHED, kind);
        if !locked.map_err(|error| unlockable(path, &error))? {
            return Err(failure(
                libc::EBUSY,
                format!(
                    "{} is attached with other pools; unmount those first",
                    path.display()
                ),
            ));
        }
    }
    Ok(())
}

/// Lock out processes that attach. A process that has detached may hold its lock a moment longer: a thread that ends
/// keeps the volume until its slot is given back, and a child before `exec` keeps the mapping.
pub(crate) fn lock_when_left(file: &File) -> std::io::Result<bool> {
    for _ in 0..LEAVE_TRIES {
        match lock_byte(file, ATTACHED, libc::F_WRLCK) {
            Ok(false) => std::thread::sleep(PAUSE),
            outcome => return outcome,
        }
    }
    lock_byte(file, ATTACHED, libc::F_WRLCK)
}
