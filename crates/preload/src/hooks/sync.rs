//! `fsync` and its kin: invariant 1 leaves them nothing to do, unless the kernel holds pages.

use crate::names::by_kernel;
use crate::record::Record;
use crate::reply::Reply;
use crate::serve::serve_cancellable;
use crate::{real, table};
use libc::{c_int, off_t};

fn durable(record: &Record) -> Reply {
    if record.is_kernel_cached() {
        Reply::Pass
    } else {
        Reply::Direct(0)
    }
}

fn fsync(fd: c_int) -> c_int {
    serve_cancellable(fd, durable).map_or_else(|| real::fsync(fd), |value| value as c_int)
}

fn fdatasync(fd: c_int) -> c_int {
    serve_cancellable(fd, durable).map_or_else(|| real::fdatasync(fd), |value| value as c_int)
}

fn sync_file_range(fd: c_int, offset: off_t, bytes: off_t, flags: u32) -> c_int {
    let sound = offset >= 0 && bytes >= 0 && offset.checked_add(bytes).is_some() && flags & !7 == 0;
    if !sound || !table::load(fd).is_ours() {
        return by_kernel(fd).unwrap_or_else(|| real::sync_file_range(fd, offset, bytes, flags));
    }
    serve_cancellable(fd, durable).map_or_else(
        || real::sync_file_range(fd, offset, bytes, flags),
        |value| value as c_int,
    )
}

export! {
    fsync => fsync(fd: c_int) -> c_int;
    fdatasync => fdatasync(fd: c_int) -> c_int;
    sync_file_range => sync_file_range(fd: c_int, offset: off_t, bytes: off_t, flags: u32) -> c_int;
}
