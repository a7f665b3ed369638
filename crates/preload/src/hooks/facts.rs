//! `statx`: who tells the kernel not to look, or asks for nothing in particular, gets what it heard last. Of files
//! that are written past it that is of the past, so it is made to look.

use crate::{devices, real, settings};
use libc::{c_char, c_int, c_uint};

fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    into: *mut libc::statx,
) -> c_int {
    let done = real::statx(directory, path, flags, mask, into);
    let looked = flags & libc::AT_STATX_DONT_SYNC == 0 && mask & libc::STATX_BASIC_STATS != 0;
    if done != 0 || looked || settings::is_off() || !devices::any() {
        return done;
    }
    // SAFETY: the kernel has just filled it.
    let (major, minor) = unsafe { ((*into).stx_dev_major, (*into).stx_dev_minor) };
    if !devices::has(major, minor) {
        return done;
    }
    let flags = flags & !libc::AT_STATX_SYNC_TYPE | libc::AT_STATX_FORCE_SYNC;
    // For nothing in particular, FUSE is not asked even so.
    real::statx(directory, path, flags, mask | libc::STATX_BASIC_STATS, into)
}

export! {
    statx => statx(directory: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut libc::statx) -> c_int;
}
