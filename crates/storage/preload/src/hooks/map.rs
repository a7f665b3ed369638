//! `mmap`: the kernel maps files of ours, through the mount and its page cache. Before it does, it must learn the
//! size (pages beyond the one it knows are SIGBUS), and from then on nobody may write past it: pages that nobody
//! has touched yet are filled from what it knows, and grow with what it writes.

use crate::description::reply::Reply;
use crate::descriptors::{late_open, table};
use crate::serve;
use crate::system::{errno, raw, real};
use egeria_engine::control::MARK_REQUEST;
use libc::{c_int, c_void, off_t, size_t};

fn mmap(
    at: *mut c_void,
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    if fd >= 0 && flags & libc::MAP_ANONYMOUS == 0 {
        let error = errno::get();
        // Also of a descriptor that no call has used yet: others may write to the file.
        let served = serve::serve(fd, |record| {
            if let Err(errno) = late_open::open_in_kernel(record, fd) {
                return Reply::Fails(errno);
            }
            raw::ioctl(fd, u64::from(MARK_REQUEST), std::ptr::null_mut());
            // Nobody changes the size past the kernel any more.
            let is_known = raw::known_size_bytes(fd)
                .zip(record.size_bytes().ok())
                .is_some_and(|(known, size)| known == size);
            if !is_known {
                kernel_size(fd);
            }
            Reply::Pass
        });
        if served.is_some() {
            return libc::MAP_FAILED;
        }
        errno::set(error);
    }
    real::mmap(at, bytes, protection, flags, fd, offset)
}

/// The kernel is about to use the position, and pages up to the size it knows.
pub(super) fn hand_over(fd: c_int) {
    serve::publish(fd);
    if table::load(fd).is_ours() {
        kernel_size(fd);
    }
}

/// Have the kernel ask the mount for the size, and keep it. It drops an answer that crosses the end of a write, and
/// takes the end of an append to be where it believed the file to end.
pub(super) fn kernel_size(fd: c_int) {
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let Some(facts) = raw::facts_of(fd) else {
            return;
        };
        if raw::known_size_bytes(fd).is_none_or(|known| known >= facts.st_size as u64) {
            return;
        }
    }
}

export! {
    mmap, mmap64 => mmap(at: *mut c_void, bytes: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void;
}
