//! Open files.

use crate::call::{Answer, Handle, borrow, call, failure, hand_out, offset, path, put, reclaim};
use crate::names::{egeria_part, put_parts, stat_of};
use crate::volume::egeria_volume;
use egeria_client::{File, OpenOptions};
use libc::{c_char, c_int, c_void, iovec, mode_t, off_t, ssize_t, stat};

/// An open regular file.
pub struct egeria_file {
    file: File,
}

impl Handle for egeria_file {
    const MARK: u64 = 0xE6E1_A002_4649_4C45;
}

/// Flags that change nothing here: writes are durable anyway, and there is no descriptor.
const WITHOUT_EFFECT: c_int =
    libc::O_CLOEXEC | libc::O_SYNC | libc::O_DSYNC | libc::O_NOCTTY | libc::O_LARGEFILE;
const KNOWN: c_int = libc::O_ACCMODE
    | libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_NOFOLLOW
    | WITHOUT_EFFECT;
/// Most buffers of one call, as in Linux.
const MAX_BUFFERS: usize = 1024;

/// Open a regular file. Flags: O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL, O_TRUNC and O_NOFOLLOW; O_CLOEXEC, O_SYNC
/// and O_DSYNC change nothing; others are EINVAL (to append: egeria_append). NULL: it failed.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_open(
    volume: *const egeria_volume,
    file: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> *mut egeria_file {
    call(std::ptr::null_mut(), || {
        // SAFETY: as the caller promises.
        let (volume, file) = unsafe { (borrow(volume)?, path(file)?) };
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
pub unsafe extern "C" fn egeria_close(file: *mut egeria_file) -> c_int {
    call(-1, || {
        // SAFETY: as the caller promises.
        drop(unsafe { reclaim(file) }?);
        Ok(0)
    })
}

/// Read from a place in the file: how many bytes, fewer than asked for at its end.
///
/// # Safety
/// The handle is NULL or valid; nobody else uses the buffer meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_pread(
    file: *const egeria_file,
    buffer: *mut c_void,
    bytes: usize,
    at: off_t,
) -> ssize_t {
    call(-1, || {
        // SAFETY: as the caller promises.
        let file = unsafe { borrow(file) }?;
        let at = offset(at)?;
        // SAFETY: as the caller promises.
        let read = unsafe { file.file.read_raw(buffer.cast(), bytes, at) }?;
        Ok(read as ssize_t)
    })
}

/// Write to a place in the file: how many bytes, durable. Fewer than given only when space ran out after some.
///
/// # Safety
/// The handle is NULL or valid; nobody changes the buffer meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_pwrite(
    file: *const egeria_file,
    buffer: *const c_void,
    bytes: usize,
    at: off_t,
) -> ssize_t {
    call(-1, || {
        // SAFETY: as the caller promises.
        let file = unsafe { borrow(file) }?;
        let at = offset(at)?;
        // SAFETY: as the caller promises.
        let written = unsafe { file.file.write_raw(buffer.cast(), bytes, at) }?;
        Ok(written as ssize_t)
    })
}

/// Write at the end of file, wherever that is by then: how many bytes, durable. `at`, unless NULL, gets the place.
///
/// # Safety
/// The handle is NULL or valid; nobody changes the buffer meanwhile; `at` is NULL or has room for an offset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_append(
    file: *const egeria_file,
    buffer: *const c_void,
    bytes: usize,
    at: *mut off_t,
) -> ssize_t {
    call(-1, || {
        // SAFETY: as the caller promises.
        let file = unsafe { borrow(file) }?;
        // SAFETY: as the caller promises.
        let (place, written) = unsafe { file.file.append_raw(buffer.cast(), bytes) }?;
        if !at.is_null() {
            // SAFETY: as the caller promises.
            unsafe { put(at, place as off_t) }?;
        }
        Ok(written as ssize_t)
    })
}

/// Read into several buffers, one after the other; each is a read of its own.
///
/// # Safety
/// The handle is NULL or valid; `buffers` is NULL or has `count` of them; nobody else uses them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_preadv(
    file: *const egeria_file,
    buffers: *const iovec,
    count: c_int,
    at: off_t,
) -> ssize_t {
    call(-1, || {
        // SAFETY: as the caller promises.
        let (file, buffers) = unsafe { (borrow(file)?, list(buffers, count)?) };
        one_by_one(buffers, offset(at)?, |buffer, at| {
            // SAFETY: as the caller promises.
            let read = unsafe {
                file.file
                    .read_raw(buffer.iov_base.cast(), buffer.iov_len, at)
            };
            Ok(read?)
        })
    })
}

/// Write several buffers, one after the other; each is a write of its own.
///
/// # Safety
/// The handle is NULL or valid; `buffers` is NULL or has `count` of them; nobody changes them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_pwritev(
    file: *const egeria_file,
    buffers: *const iovec,
    count: c_int,
    at: off_t,
) -> ssize_t {
    call(-1, || {
        // SAFETY: as the caller promises.
        let (file, buffers) = unsafe { (borrow(file)?, list(buffers, count)?) };
        one_by_one(buffers, offset(at)?, |buffer, at| {
            // SAFETY: as the caller promises.
            let written = unsafe {
                file.file
                    .write_raw(buffer.iov_base.cast(), buffer.iov_len, at)
            };
            Ok(written?)
        })
    })
}

/// # Safety
/// NULL, or `count` buffers.
unsafe fn list<'a>(buffers: *const iovec, count: c_int) -> Answer<&'a [iovec]> {
    let wrong = || failure(libc::EINVAL, "no list of at most 1024 buffers");
    let count = usize::try_from(count).map_err(|_| wrong())?;
    if count > MAX_BUFFERS {
        return Err(wrong());
    }
    if count == 0 {
        return Ok(&[]);
    }
    if buffers.is_null() || !buffers.is_aligned() {
        return Err(wrong());
    }
    // SAFETY: as the caller promises.
    let list = unsafe { std::slice::from_raw_parts(buffers, count) };
    let sum = list
        .iter()
        .try_fold(0usize, |sum, buffer| sum.checked_add(buffer.iov_len));
    match sum.is_some_and(|sum| sum <= isize::MAX as usize) {
        true => Ok(list),
        false => Err(wrong()),
    }
}

/// Once something was moved, a later failure shortens the answer.
fn one_by_one(
    buffers: &[iovec],
    at: u64,
    mut transfer: impl FnMut(&iovec, u64) -> Answer<usize>,
) -> Answer<ssize_t> {
    let mut done = 0usize;
    for buffer in buffers {
        match transfer(buffer, at.saturating_add(done as u64)) {
            Ok(moved) => {
                done += moved;
                if moved < buffer.iov_len {
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
pub unsafe extern "C" fn egeria_fsync(file: *const egeria_file) -> c_int {
    call(-1, || {
        // SAFETY: as the caller promises.
        unsafe { borrow(file) }?.file.sync()?;
        Ok(0)
    })
}

/// Cut or grow a file.
///
/// # Safety
/// The handle is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_ftruncate(file: *const egeria_file, bytes: off_t) -> c_int {
    call(-1, || {
        // SAFETY: as the caller promises.
        unsafe { borrow(file) }?.file.set_size(offset(bytes)?)?;
        Ok(0)
    })
}

/// What is known of an open file. st_dev is 0.
///
/// # Safety
/// The handle is NULL or valid; `found` is NULL or has room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_fstat(file: *const egeria_file, found: *mut stat) -> c_int {
    call(-1, || {
        // SAFETY: as the caller promises.
        let metadata = unsafe { borrow(file) }?.file.metadata()?;
        // SAFETY: as the caller promises.
        unsafe { put(found, stat_of(&metadata)) }?;
        Ok(0)
    })
}

/// Which nodes hold the data of an open file; see egeria_where.
///
/// # Safety
/// The handle is NULL or valid; `parts` has room for `room` parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_fwhere(
    file: *const egeria_file,
    parts: *mut egeria_part,
    room: usize,
) -> ssize_t {
    call(-1, || {
        // SAFETY: as the caller promises.
        let found = unsafe { borrow(file) }?.file.locate()?;
        // SAFETY: as the caller promises.
        unsafe { put_parts(&found, parts, room) }
    })
}
