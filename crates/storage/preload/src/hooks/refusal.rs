//! What the kernel refuses on files of a mount, said without opening one in the kernel for it: `cp` and its like try
//! such calls on every file.

use super::dup_close::status_of_deferred;
use crate::description::record::Record;
use crate::descriptors::table;
use crate::serve::{self, guarded};
use crate::system::raw;
use crate::trust::Place;
use libc::{c_int, c_void, off_t};

// Of `linux/fs.h`: share blocks with another file.
const FICLONE: u64 = 0x4004_9409;
const FICLONERANGE: u64 = 0x4020_940d;
const FIDEDUPERANGE: u64 = 0xc018_9436;
/// Of `linux/loop.h`.
const LOOP_CONFIGURE: u64 = 0x4c0a;
const READS: [c_int; 2] = [libc::O_RDONLY, libc::O_RDWR];
const WRITES: [c_int; 2] = [libc::O_WRONLY, libc::O_RDWR];

/// Status flags of a number that the kernel has open.
pub(super) fn status_in_kernel(fd: c_int) -> Option<c_int> {
    c_int::try_from(raw::fcntl(fd, libc::F_GETFL, 0))
        .ok()
        .filter(|status| *status >= 0)
}

/// Whether a description has one of these modes, and none of the flags.
fn is(fd: c_int, modes: &[c_int], refused: c_int) -> bool {
    status_of_deferred(fd)
        .or_else(|| status_in_kernel(fd))
        .is_some_and(|status| modes.contains(&(status & libc::O_ACCMODE)) && status & refused == 0)
}

/// Whether `copy_file_range` is refused because the file systems are of different kinds: what the kernel finds wrong
/// before that is not. It looks at the positions later.
pub(super) fn is_copy_refused(
    from: c_int,
    from_at: *const off_t,
    to: c_int,
    to_at: *const off_t,
) -> bool {
    let (ours, other) = match (serve::is_deferred(from), serve::is_deferred(to)) {
        (true, false) => (from, to),
        (false, true) => (to, from),
        _ => return false,
    };
    let is_good = |at: *const off_t| at.is_null() || guarded::fetch(ours, at).is_some();
    // Not a directory of ours, either.
    !table::load(other).is_ours()
        && is_good(from_at)
        && is_good(to_at)
        && is(from, &READS, libc::O_PATH)
        && is(to, &WRITES, libc::O_PATH | libc::O_APPEND)
        && Place::of_regular_file(other).is_some_and(|place| place.is_no_fuse(other))
}

/// How a request on a file is refused. Both numbers of one that names another are open in the kernel after `None`.
pub(super) fn of_request(fd: c_int, request: u64, argument: *mut c_void) -> Option<c_int> {
    match request {
        libc::TCGETS | libc::TIOCGWINSZ | libc::TIOCGPGRP => {
            serve::is_deferred(fd).then_some(libc::ENOTTY)
        }
        FICLONE => {
            let source = argument as usize as c_int;
            let refusal = of_clone(fd, source);
            if refusal.is_none() {
                serve::open_in_kernel(source);
            }
            refusal
        }
        // The argument names others, or may.
        FICLONERANGE | FIDEDUPERANGE | LOOP_CONFIGURE => {
            serve::open_all_in_kernel();
            None
        }
        _ => {
            if let Ok(other) = c_int::try_from(argument as usize) {
                serve::open_in_kernel(other);
            }
            None
        }
    }
}

fn of_clone(to: c_int, from: c_int) -> Option<c_int> {
    let other = match (serve::is_deferred(to), serve::is_deferred(from)) {
        (false, false) => return None,
        (true, true) => {
            let is_sound = is(from, &READS, 0) && is(to, &WRITES, libc::O_APPEND);
            return is_same_mount(to, from).then_some(if is_sound {
                libc::EOPNOTSUPP
            } else {
                libc::EBADF
            });
        }
        (true, false) => from,
        (false, true) => to,
    };
    let is_open = status_in_kernel(other)? & libc::O_PATH == 0;
    (is_open && Place::of_any(other)?.is_no_fuse(other)).then_some(libc::EXDEV)
}

fn is_same_mount(fd: c_int, other: c_int) -> bool {
    let mount_of = |fd| {
        let mut mount = None;
        serve::quietly(fd, |record: &Record| {
            mount = record.origin().map(|origin| origin.mount);
        });
        mount
    };
    let mount = mount_of(fd);
    mount.is_some() && mount == mount_of(other)
}
