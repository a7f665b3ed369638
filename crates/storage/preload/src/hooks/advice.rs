//! `readahead` and `posix_fadvise`: data of ours is as near as it gets. Passed on, they would bring it
//! into the kernel's page cache, and every later call with it.

use crate::description::record::Record;
use crate::description::reply::Reply;
use crate::serve::path::by_kernel;
use crate::serve::{serve, try_open_in_kernel};
use crate::system::real;
use libc::{c_int, off_t, size_t, ssize_t};

fn readahead(fd: c_int, offset: off_t, bytes: size_t) -> ssize_t {
    let reply = |record: &Record| {
        if record.is_readable() && !record.is_kernel_cached() {
            Reply::Done(0)
        } else {
            Reply::Pass
        }
    };
    if offset < 0 {
        return by_kernel(fd).unwrap_or_else(|| real::readahead(fd, offset, bytes));
    }
    serve(fd, reply).unwrap_or_else(|| real::readahead(fd, offset, bytes))
}

/// Returns an error number; never sets `errno`.
fn posix_fadvise(fd: c_int, offset: off_t, bytes: off_t, advice: c_int) -> c_int {
    let known = (libc::POSIX_FADV_NORMAL..=libc::POSIX_FADV_NOREUSE).contains(&advice);
    if bytes < 0 || !known {
        return match try_open_in_kernel(fd) {
            Ok(()) => real::posix_fadvise(fd, offset, bytes, advice),
            Err(errno) => errno,
        };
    }
    let reply = |record: &Record| {
        if record.is_kernel_cached() {
            Reply::Pass
        } else {
            Reply::Done(0)
        }
    };
    serve(fd, reply).map_or_else(
        || real::posix_fadvise(fd, offset, bytes, advice),
        |value| value as c_int,
    )
}

export! {
    readahead => readahead(fd: c_int, offset: off_t, bytes: size_t) -> ssize_t;
    posix_fadvise, posix_fadvise64 => posix_fadvise(fd: c_int, offset: off_t, bytes: off_t, advice: c_int) -> c_int;
}
