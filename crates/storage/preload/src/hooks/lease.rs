//! `fcntl(F_SETLEASE)`.

use crate::files::range_locks;
use crate::serve;
use crate::system::{errno, real};
use libc::c_int;

/// The kernel refuses a lease of a file that is open elsewhere: it must know of every open.
pub(super) fn set(fd: c_int, kind: usize) -> c_int {
    let answer = match known_to_kernel(fd) {
        Ok(()) => return real::fcntl(fd, libc::F_SETLEASE, kind),
        Err(errno) => errno,
    };
    errno::set(answer);
    -1
}

fn known_to_kernel(fd: c_int) -> Result<(), c_int> {
    range_locks::open_all_of(fd);
    serve::try_open_in_kernel(fd)?;
    let mut is_elsewhere = false;
    serve::quietly(fd, |record| {
        is_elsewhere = record.volume().is_open_past_kernel_by_others(record.ino());
    });
    if is_elsewhere {
        Err(libc::EAGAIN)
    } else {
        Ok(())
    }
}
