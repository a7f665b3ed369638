//! Writes to files of ours.

use crate::record::{MAX_BYTES, PASS, Record, is_beyond};
use crate::{settings, signals};
use egeria_fs::{CallerSource, Outcome};

/// Write at an offset.
#[inline(always)]
pub fn write_at(
    record: &Record,
    offset_bytes: u64,
    buffer: *const u8,
    bytes: usize,
) -> Outcome<usize> {
    if settings::file_size_limited() || is_beyond(offset_bytes, bytes) {
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
    if settings::file_size_limited() {
        return Err(PASS);
    }
    signals::before_write(bytes);
    // SAFETY: the program gave the address to be read; a bad one is met by the handler installed at attach.
    let from = unsafe { CallerSource::new(buffer, bytes.min(MAX_BYTES)) };
    record.volume().append_direct(record.file(), from)
}
