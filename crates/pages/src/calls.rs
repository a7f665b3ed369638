//! System calls that libc has no function for.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `cachestat`, since Linux 6.5; the same number on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    length: u64,
}

/// What the page cache holds of a range of a file, pages.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct CacheStat {
    pub(crate) cached: u64,
    pub(crate) dirty: u64,
    pub(crate) writeback: u64,
    pub(crate) evicted: u64,
    pub(crate) recently_evicted: u64,
}

/// What is cached of these bytes; a length of 0 is up to the end.
///
/// # Errors
/// `ENOSYS` before Linux 6.5, `EPERM` when it is another user's file.
pub(crate) fn cachestat(file: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<CacheStat> {
    let range = Range { offset, length };
    let mut stat = CacheStat::default();
    // SAFETY: both structures are as the kernel declares them, and live until the call is over.
    let status = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut stat,
            0,
        )
    };
    match status {
        0 => Ok(stat),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The node of each page at these addresses of this process, or a negative error number.
///
/// # Errors
/// When the kernel has no NUMA support, or a sandbox forbids the call.
pub(crate) fn nodes_of(addresses: &[usize]) -> io::Result<Vec<i32>> {
    let mut status = vec![-libc::ENOENT; addresses.len()];
    let no_nodes = std::ptr::null::<libc::c_int>();
    // SAFETY: without nodes the call only asks; it reads and fills as many entries as it is told.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0,
            addresses.len(),
            addresses.as_ptr(),
            no_nodes,
            status.as_mut_ptr(),
            0,
        )
    };
    match answer {
        0 => Ok(status),
        _ => Err(io::Error::last_os_error()),
    }
}
