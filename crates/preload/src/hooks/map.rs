//! `mmap`: the kernel maps files of ours, through the mount and its page cache. It must first learn
//! what went past it: the size (pages beyond the one it knows are SIGBUS); and the first page is
//! touched at once, so that from then on the inode counts as kernel-cached.

use crate::serve::{self, Reply};
use crate::{errno, guarded, offset, raw, real, table};
use libc::{c_int, c_void, off_t, size_t};

fn mmap(
    at: *mut c_void,
    bytes: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: off_t,
) -> *mut c_void {
    let of_file = fd >= 0 && flags & libc::MAP_ANONYMOUS == 0;
    if !of_file || !table::load(fd).is_ours() {
        return real::mmap(at, bytes, protection, flags, fd, offset);
    }
    let mut size = None;
    serve::serve(fd, |_| {
        size = kernel_size(fd);
        Reply::Pass
    });
    let mapped = real::mmap(at, bytes, protection, flags, fd, offset);
    let there = mapped != libc::MAP_FAILED && size.is_some_and(|size| offset < size);
    if there && protection & libc::PROT_READ != 0 {
        touch(fd, mapped.cast());
    }
    mapped
}

/// The kernel is about to use the position, and pages up to the size it knows.
pub(super) fn hand_over(fd: c_int) {
    offset::publish(fd);
    if table::load(fd).is_ours() {
        kernel_size(fd);
    }
}

/// The size by the mount's word, which the kernel keeps.
fn kernel_size(fd: c_int) -> Option<off_t> {
    // SAFETY: all-zero is a valid stat.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    (raw::fstat(fd, &raw mut facts) == 0).then_some(facts.st_size)
}

fn touch(fd: c_int, page: *const u8) {
    let error = errno::get();
    serve::quietly(fd, |_| {
        let mut byte = 0;
        // SAFETY: one byte of ours; a fault on the other side is only an answer.
        unsafe { guarded::copy(&raw mut byte, page, 1) };
    });
    errno::set(error);
}

export! {
    mmap, mmap64 => mmap(at: *mut c_void, bytes: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void;
}
