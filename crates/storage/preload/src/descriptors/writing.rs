//! Writes to files of ours.

use crate::description::record::{MAX_BYTES, Record, is_beyond};
use crate::description::reply::PASS;
use crate::signals;
use crate::trust::settings;
use egeria_engine::{CallerSource, Outcome};

/// Whether set-user-id or set-group-id bits may have to go when the content changes, which the kernel knows. Capabilities of
/// the file go here.
#[inline(always)]
pub fn has_setid(record: &Record) -> bool {
    record.volume().may_have_privileges(record.file()) && has_setid_without_capability(record)
}

#[cold]
fn has_setid_without_capability(record: &Record) -> bool {
    let (volume, file) = (record.volume(), record.file());
    volume.drop_capability(file).is_err() || volume.may_have_privileges(file)
}

/// Overwrite a block, or write behind the end of file, if it goes the quick way. `None`: nothing was done, or [`write_at`]
/// reports what went wrong.
#[inline(always)]
pub fn write_quickly(
    record: &Record,
    offset_bytes: u64,
    buffer: *const u8,
    bytes: usize,
) -> Option<usize> {
    let is_usual = record.writes_at_offset() && !is_beyond(offset_bytes, bytes) && is_quick(record);
    if !is_usual {
        return None;
    }
    // SAFETY: the program gave the address to be read; a bad one is met by the handler installed at attach.
    let from = unsafe { CallerSource::new(buffer, bytes) };
    record
        .volume()
        .write_quickly(record.file(), offset_bytes, from)
}

/// Append, if it goes the quick way: where it landed. `None`: nothing was done, or [`append`] reports what went wrong.
#[inline(always)]
pub fn append_quickly(record: &Record, buffer: *const u8, bytes: usize) -> Option<u64> {
    if !(record.writes_at_end() && is_quick(record)) {
        return None;
    }
    // SAFETY: the program gave the address to be read; a bad one is met by the handler installed at attach.
    let from = unsafe { CallerSource::new(buffer, bytes) };
    record.volume().append_quickly(record.file(), from)
}

/// Whether nothing but the write itself is to be done.
#[inline(always)]
fn is_quick(record: &Record) -> bool {
    !settings::file_size_limited()
        && signals::counts_no_writes()
        && !record.volume().may_have_privileges(record.file())
}

/// Write at an offset.
#[inline(always)]
pub fn write_at(
    record: &Record,
    offset_bytes: u64,
    buffer: *const u8,
    bytes: usize,
) -> Outcome<usize> {
    if settings::file_size_limited() || is_beyond(offset_bytes, bytes) || has_setid(record) {
        return Err(PASS);
    }
    let bytes = bytes.min(MAX_BYTES);
    signals::before_write(bytes);
    // SAFETY: the program gave the address to be read; a bad one is met by the handler installed at attach.
    let from = unsafe { CallerSource::new(buffer, bytes) };
    record
        .volume()
        .write_direct(record.file(), offset_bytes, from)
}

/// Write at the end of the file; where it landed, and how much.
pub fn append(record: &Record, buffer: *const u8, bytes: usize) -> Outcome<(u64, usize)> {
    if settings::file_size_limited() || has_setid(record) {
        return Err(PASS);
    }
    signals::before_write(bytes);
    // SAFETY: the program gave the address to be read; a bad one is met by the handler installed at attach.
    let from = unsafe { CallerSource::new(buffer, bytes.min(MAX_BYTES)) };
    record.volume().append_direct(record.file(), from)
}
