//! Locks of open file descriptions, which neither std nor rustix has.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Tries to lock a file from a byte on, without an end where `bytes` is 0. `kind` is `F_RDLCK` or `F_WRLCK`.
///
/// # Errors
/// `EAGAIN` where another one is in the way.
pub fn lock_description(file: &File, kind: i32, from: i64, bytes: i64) -> io::Result<()> {
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: from,
        l_len: bytes,
        l_pid: 0,
    };
    // SAFETY: an open descriptor, and a lock that outlives the call, which only reads it.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
