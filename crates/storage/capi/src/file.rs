//! Open files.

use crate::arguments::{
    Buffers, Destination, Handle, Lent, OffsetPlace, Returned, Source, StatPlace, Text, hand_out,
};
use crate::call::{Answer, call, failure, offset};
use crate::names::{Parts, part_of, stat_of};
use crate::volume::VolumeHandle;
use egeria_client::{File, OpenOptions};
use libc::{c_int, mode_t, off_t, ssize_t};

/// An open regular file.
pub struct egeria_file {
    file: File,
}

impl Handle for egeria_file {
    const MARK: u64 = 0xE6E1_A002_4649_4C45;
}

argument_names! {
    FileHandle = Lent<egeria_file>;
    OwnFile = Returned<egeria_file>;
}

/// Flags without effect: writes are durable anyway, and there is no descriptor.
const WITHOUT_EFFECT: c_int =
    libc::O_CLOEXEC | libc::O_SYNC | libc::O_DSYNC | libc::O_NOCTTY | libc::O_LARGEFILE;
const KNOWN: c_int = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_NOFOLLOW
    | WITHOUT_EFFECT;

/// Open a regular file. Flags: O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL, O_TRUNC and O_NOFOLLOW; O_CLOEXEC, O_SYNC
/// and O_DSYNC change nothing; others are EINVAL (to append: egeria_append). NULL: it failed.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_open(
    volume: VolumeHandle,
    file: Text,
    flags: c_int,
    mode: mode_t,
) -> *mut egeria_file {
    call(std::ptr::null_mut(), || {
        let (volume, file) = (volume.get()?, file.path()?);
        let file = volume.volume.open(file, &options(flags, mode)?)?;
        Ok(hand_out(egeria_file { file }))
    })
}

fn options(flags: c_int, mode: mode_t) -> Answer<OpenOptions> {
    let access = flags & libc::O_ACCMODE;
    if flags & !KNOWN != 0 || access == libc::O_ACCMODE {
        return Err(failure(
            libc::EINVAL,
            "flags that files of a volume do not have; egeria.h lists them",
        ));
    }
    let has = |flag| flags & flag == flag;
    let mut options = OpenOptions::new();
    options
        .read(access != libc::O_WRONLY)
        .write(access != libc::O_RDONLY)
        .create(has(libc::O_CREAT))
        .create_new(has(libc::O_CREAT | libc::O_EXCL))
        .truncate(has(libc::O_TRUNC))
        .follow(!has(libc::O_NOFOLLOW))
        .mode(mode);
    Ok(options)
}

/// Close a file.
///
/// # Safety
/// The handle is NULL or from `egeria_open`, and not used any more.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_close(file: OwnFile) -> c_int {
    call(-1, || {
        drop(file.take()?);
        Ok(0)
    })
}

/// Read from a place in the file: how many bytes, fewer than asked for at its end.
///
/// # Safety
/// The handle is NULL or valid; no other thread uses the buffer during the call.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_pread(
    file: FileHandle,
    buffer: Destination,
    bytes: usize,
    at: off_t,
) -> ssize_t {
    call(-1, || {
        let file = file.get()?;
        let read = buffer.fill(bytes, &file.file, offset(at)?)?;
        Ok(read as ssize_t)
    })
}

/// Write to a place in the file: how many bytes, durable. Fewer than given only when space ran out after some.
///
/// # Safety
/// The handle is NULL or valid; no other thread changes the buffer during the call.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_pwrite(
    file: FileHandle,
    buffer: Source,
    bytes: usize,
    at: off_t,
) -> ssize_t {
    call(-1, || {
        let file = file.get()?;
        let written = buffer.write(bytes, &file.file, offset(at)?)?;
        Ok(written as ssize_t)
    })
}

/// Write at the end of file, wherever that is by then: how many bytes, durable. `at`, unless NULL, gets the place.
///
/// # Safety
/// The handle is NULL or valid; no other thread changes the buffer during the call; `at` is NULL or has room for an
/// offset.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_append(
    file: FileHandle,
    buffer: Source,
    bytes: usize,
    at: OffsetPlace,
) -> ssize_t {
    call(-1, || {
        let file = file.get()?;
        let (place, written) = buffer.append(bytes, &file.file)?;
        if !at.is_null() {
            at.put(place as off_t)?;
        }
        Ok(written as ssize_t)
    })
}

/// Read into several buffers, one after the other; each is a read of its own.
///
/// # Safety
/// The handle is NULL or valid; `buffers` is NULL or has `count` of them; no other thread uses them during the call.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_preadv(
    file: FileHandle,
    buffers: Buffers,
    count: c_int,
    at: off_t,
) -> ssize_t {
    call(-1, || {
        let (file, buffers) = (&file.get()?.file, buffers.destinations(count)?);
        one_by_one(buffers, offset(at)?, |buffer, bytes, at| {
            buffer.fill(bytes, file, at)
        })
    })
}

/// Write several buffers, one after the other; each is a write of its own.
///
/// # Safety
/// The handle is NULL or valid; `buffers` is NULL or has `count` of them; no other thread changes them during the
/// call.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_pwritev(
    file: FileHandle,
    buffers: Buffers,
    count: c_int,
    at: off_t,
) -> ssize_t {
    call(-1, || {
        let (file, buffers) = (&file.get()?.file, buffers.sources(count)?);
        one_by_one(buffers, offset(at)?, |buffer, bytes, at| {
            buffer.write(bytes, file, at)
        })
    })
}

/// A failure after some bytes were moved shortens the result.
fn one_by_one<B>(
    buffers: impl Iterator<Item = (B, usize)>,
    at: u64,
    mut transfer: impl FnMut(B, usize, u64) -> Answer<usize>,
) -> Answer<ssize_t> {
    let mut done = 0usize;
    for (buffer, bytes) in buffers {
        match transfer(buffer, bytes, at.saturating_add(done as u64)) {
            Ok(moved) => {
                done += moved;
                if moved < bytes {
                    break;
                }
            }
            Err(failure) if done == 0 => return Err(failure),
            Err(_) => break,
        }
    }
    Ok(done as ssize_t)
}

/// Writes are durable when they return, so this only finds out that the file can be used.
///
/// # Safety
/// The handle is NULL or valid.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_fsync(file: FileHandle) -> c_int {
    call(-1, || {
        file.get()?.file.sync()?;
        Ok(0)
    })
}

/// Cut or grow a file.
///
/// # Safety
/// The handle is NULL or valid.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_ftruncate(file: FileHandle, bytes: off_t) -> c_int {
    call(-1, || {
        file.get()?.file.set_size(offset(bytes)?)?;
        Ok(0)
    })
}

/// What is known of an open file. st_dev is 0.
///
/// # Safety
/// The handle is NULL or valid; `found` is NULL or has room for one.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_fstat(file: FileHandle, found: StatPlace) -> c_int {
    call(-1, || {
        let metadata = file.get()?.file.metadata()?;
        found.put(stat_of(&metadata))?;
        Ok(0)
    })
}

/// Which nodes hold the data of an open file; see egeria_where.
///
/// # Safety
/// The handle is NULL or valid; `parts` has room for `room` parts.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_fwhere(file: FileHandle, parts: Parts, room: usize) -> ssize_t {
    call(-1, || {
        let found = file.get()?.file.locate()?;
        parts.put(found.iter().map(part_of), room)
    })
}
