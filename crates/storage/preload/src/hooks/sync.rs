//! `fsync` and its kin: invariant 1 leaves them nothing to do, unless the kernel holds pages, or could not write back some
//! that it had.

use crate::description::record::Record;
use crate::description::reply::Reply;
use crate::descriptors::{late_open, table};
use crate::serve::path::by_kernel;
use crate::serve::serve_cancellable;
use crate::system::{raw, real};
use egeria_engine::WriteBackErrors;
use libc::{c_int, off_t};

fn durable(record: &Record, fd: c_int) -> Reply {
    let errors = record.volume().write_back_errors(record.file());
    if record.is_directory() || record.knows_write_back_errors(errors) {
        return usual(record);
    }
    after_errors(record, fd, errors)
}

fn usual(record: &Record) -> Reply {
    if record.is_kernel_cached() {
        Reply::Pass
    } else {
        Reply::Done(0)
    }
}

/// Pages were lost since the description was opened, or no handle was told of it before. The kernel tells its own handles;
/// of one that it did not have then, it knows nothing.
#[cold]
fn after_errors(record: &Record, fd: c_int, errors: WriteBackErrors) -> Reply {
    let known = record.learn_write_back_errors(errors);
    let is_first = record.volume().see_write_back_error(record.file(), errors);
    let is_own = errors.is_new_since(known);
    if !is_own && !is_first {
        return usual(record);
    }
    let was_deferred = record.is_deferred();
    if let Err(errno) = late_open::open_in_kernel(record, fd) {
        return Reply::Fails(errno);
    }
    match raw::fsync(fd) {
        0 if is_own && was_deferred => Reply::Fails(errors.errno().0),
        synced => Reply::Asked(synced),
    }
}

fn fsync(fd: c_int) -> c_int {
    serve_cancellable(fd, |record| durable(record, fd))
        .map_or_else(|| real::fsync(fd), |value| value as c_int)
}

fn fdatasync(fd: c_int) -> c_int {
    serve_cancellable(fd, |record| durable(record, fd))
        .map_or_else(|| real::fdatasync(fd), |value| value as c_int)
}

fn sync_file_range(fd: c_int, offset: off_t, bytes: off_t, flags: u32) -> c_int {
    let sound = offset >= 0 && bytes >= 0 && offset.checked_add(bytes).is_some() && flags & !7 == 0;
    if !sound || !table::load(fd).is_ours() {
        return by_kernel(fd).unwrap_or_else(|| real::sync_file_range(fd, offset, bytes, flags));
    }
    serve_cancellable(fd, usual).map_or_else(
        || real::sync_file_range(fd, offset, bytes, flags),
        |value| value as c_int,
    )
}

export! {
    fsync => fsync(fd: c_int) -> c_int;
    fdatasync => fdatasync(fd: c_int) -> c_int;
    sync_file_range => sync_file_range(fd: c_int, offset: off_t, bytes: off_t, flags: u32) -> c_int;
}
