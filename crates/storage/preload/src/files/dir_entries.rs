//! What `getdents64` tells of a directory that the engine opened.
//!
//! The position of the description is the cookie of the last entry told, as on the mount: a stream goes on in the
//! kernel where it was here.

use crate::description::record::Record;
use crate::description::reply::Reply;
use crate::serve::serve;
use crate::system::{errno, raw};
use egeria_engine::DirectoryEntry;
use libc::c_int;
use std::mem::offset_of;
use std::sync::atomic::Ordering;

/// Entries of one call, at most. The kernel may tell fewer than there is room for, too.
pub const ROOM_BYTES: usize = 32 << 10;
/// Of a `struct dirent`, what comes before the name.
const HEAD_BYTES: usize = offset_of!(libc::dirent, d_name);
const ALIGNMENT: usize = 8;

/// Fill `into` with entries from the position on: bytes filled, or minus an errno; and before which cookie the stream
/// ends, when the engine answered.
pub fn read(fd: c_int, into: &mut [u8]) -> (isize, Option<u64>) {
    let mut end = None;
    let served = read_with(fd, |record, position| {
        let filled = fill(record, position, into);
        end = record.reading().map(|it| it.end.load(Ordering::Relaxed));
        filled
    });
    match served {
        Some(filled) => (filled, end),
        None => {
            let (to, room) = (into.as_mut_ptr().cast(), into.len());
            (raw::getdents64(fd, to, room), None)
        }
    }
}

/// Run `body` at the position of a directory that the engine reads: what it returns, a value or minus an errno.
pub fn read_with(fd: c_int, body: impl FnOnce(&Record, &mut u64) -> isize) -> Option<isize> {
    let error = errno::get();
    let mut outcome = None;
    serve(fd, |record| {
        if !record.is_directory() {
            return Reply::Pass;
        }
        let done = record.offset.with(|position| {
            let value = body(record, position);
            outcome = Some(value);
            Reply::Done(value.max(0))
        });
        done.unwrap_or(Reply::Pass)
    });
    errno::set(error);
    outcome
}

/// Entries after the position, which moves behind them.
pub fn fill(record: &Record, position: &mut u64, into: &mut [u8]) -> isize {
    let Some(reading) = record.reading() else {
        return -libc::ENOTDIR as isize;
    };
    let (volume, ino) = (record.volume(), record.ino());
    let mut end = reading.end.load(Ordering::Relaxed);
    if *position == 0 || end == 0 {
        end = match volume.directory_end(ino) {
            Ok(end) => end,
            Err(errno) => return -errno.0 as isize,
        };
        reading.end.store(end, Ordering::Relaxed);
    } else if *position == reading.ended_at.load(Ordering::Relaxed) {
        return 0;
    }
    let (mut filled, mut last, mut is_full) = (0, *position, false);
    let mut add = |entry: &DirectoryEntry<'_>| {
        let bytes = (HEAD_BYTES + entry.name.len() + 1).next_multiple_of(ALIGNMENT);
        let Some(room) = into.get_mut(filled..filled + bytes) else {
            is_full = true;
            return false;
        };
        put(room, entry);
        filled += bytes;
        last = entry.cookie;
        true
    };
    let outcome = volume.read_directory_until(ino, *position, end, &mut add);
    match outcome {
        Err(errno) if filled == 0 => return -errno.0 as isize,
        Ok(()) if filled == 0 && is_full => return -libc::EINVAL as isize,
        // A living one has dots.
        Ok(()) if filled == 0 && *position == 0 => return -libc::ENOENT as isize,
        Ok(()) if !is_full => reading.ended_at.store(last, Ordering::Relaxed),
        _ => {}
    }
    *position = last;
    filled as isize
}

/// A `struct dirent64`, which is the kernel's, too.
fn put(room: &mut [u8], entry: &DirectoryEntry<'_>) {
    let bytes = room.len() as u16;
    let name = entry.name.len();
    room[0..8].copy_from_slice(&entry.ino.0.to_ne_bytes());
    room[8..16].copy_from_slice(&entry.cookie.to_ne_bytes());
    room[16..18].copy_from_slice(&bytes.to_ne_bytes());
    room[18] = entry.kind.dirent_type();
    room[HEAD_BYTES..HEAD_BYTES + name].copy_from_slice(entry.name);
    room[HEAD_BYTES + name..].fill(0);
}
