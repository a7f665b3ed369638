//! Files that processes have open, looked at by a copy of their descriptor. To open them again, as by `/proc/PID/fd`,
//! is an event for processes that watch the file (inotify, fanotify), and such a process may build, copy or restart
//! because of it.

use std::fs::File;
use std::io;
use std::path::Path;

use egeria_proc::living;
use rustix::process::{ForeignRawFd, Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// `PIDFD_THREAD`, since Linux 6.9: a descriptor of a thread that is not the first one.
const OF_THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as libc::c_uint);

/// The regular file that a process has open by this descriptor. It is the same open file description, so its position
/// and modes belong to the process, and must not change. It is held only for a moment: during that, a close by the
/// process is not the last close.
///
/// # Errors
/// `EPERM` where this process may not trace the other one, `ENOSYS` before Linux 5.6, those of the kernel when it is
/// gone.
pub fn file(process_id: u32, descriptor: u32) -> io::Result<File> {
    let gone = || io::Error::from_raw_os_error(libc::ESRCH);
    let thread = living::thread(process_id);
    let flags = if thread == process_id {
        PidfdFlags::empty()
    } else {
        OF_THREAD
    };
    let pid = Pid::from_raw(thread as i32).ok_or_else(gone)?;
    let process = pidfd_open(pid, flags)?;
    let descriptor = ForeignRawFd::try_from(descriptor).map_err(|_| gone())?;
    let found: File = pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty())?.into();
    if found.metadata()?.is_file() {
        Ok(found)
    } else {
        Err(io::Error::other("not a regular file"))
    }
}

/// The number of a descriptor by its name in `/proc/PID/fd`.
pub(crate) fn number(link: &Path) -> Option<u32> {
    link.file_name()?.to_str()?.parse().ok()
}
