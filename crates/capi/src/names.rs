//! What is done by path.

use crate::call::{Answer, borrow, call, failure, path, put};
use crate::volume::egeria_volume;
use egeria_client::{Metadata, Part};
use libc::{c_char, c_int, mode_t, ssize_t, stat};

/// A part of a file's data, on one node.
#[repr(C)]
pub struct egeria_part {
    /// Where it begins in the file, bytes.
    pub offset_bytes: u64,
    /// How long it is, bytes; the last one may go beyond the end of file.
    pub length_bytes: u64,
    /// The NUMA node that holds it.
    pub node: u32,
    /// The pool that holds it, by its index in the volume.
    pub pool: u32,
}

/// What is known of a file; symbolic links are followed. st_dev is 0.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string; `found` is NULL or has room for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_stat(
    volume: *const egeria_volume,
    file: *const c_char,
    found: *mut stat,
) -> c_int {
    call(-1, || {
        // SAFETY: as the caller promises.
        let (volume, file) = unsafe { (borrow(volume)?, path(file)?) };
        let metadata = volume.volume.metadata(file)?;
        // SAFETY: as the caller promises.
        unsafe { put(found, stat_of(&metadata)) }?;
        Ok(0)
    })
}

/// The same; of a symbolic link at the end of the path, what is known of the link.
///
/// # Safety
/// As `egeria_stat`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_lstat(
    volume: *const egeria_volume,
    file: *const c_char,
    found: *mut stat,
) -> c_int {
    call(-1, || {
        // SAFETY: as the caller promises.
        let (volume, file) = unsafe { (borrow(volume)?, path(file)?) };
        let metadata = volume.volume.symlink_metadata(file)?;
        // SAFETY: as the caller promises.
        unsafe { put(found, stat_of(&metadata)) }?;
        Ok(0)
    })
}

pub(crate) fn stat_of(metadata: &Metadata) -> stat {
    const SECOND_NS: i64 = 1_000_000_000;
    // SAFETY: all-zero is a valid stat (integers).
    let mut found: stat = unsafe { std::mem::zeroed() };
    found.st_ino = metadata.inode;
    found.st_mode = metadata.mode;
    found.st_nlink = metadata.links.into();
    found.st_uid = metadata.uid;
    found.st_gid = metadata.gid;
    found.st_size = metadata.size_bytes.min(i64::MAX as u64) as i64;
    found.st_blksize = 4096;
    found.st_blocks = (metadata.allocated_bytes / 512) as i64;
    found.st_atime = metadata.accessed_ns.div_euclid(SECOND_NS);
    found.st_atime_nsec = metadata.accessed_ns.rem_euclid(SECOND_NS);
    found.st_mtime = metadata.modified_ns.div_euclid(SECOND_NS);
    found.st_mtime_nsec = metadata.modified_ns.rem_euclid(SECOND_NS);
    found.st_ctime = metadata.changed_ns.div_euclid(SECOND_NS);
    found.st_ctime_nsec = metadata.changed_ns.rem_euclid(SECOND_NS);
    found
}

/// Make a directory.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_mkdir(
    volume: *const egeria_volume,
    directory: *const c_char,
    mode: mode_t,
) -> c_int {
    call(-1, || {
        // SAFETY: as the caller promises.
        let (volume, directory) = unsafe { (borrow(volume)?, path(directory)?) };
        volume.volume.create_directory(directory, mode)?;
        Ok(0)
    })
}

/// Remove an empty directory.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_rmdir(
    volume: *const egeria_volume,
    directory: *const c_char,
) -> c_int {
    call(-1, || {
        // SAFETY: as the caller promises.
        let (volume, directory) = unsafe { (borrow(volume)?, path(directory)?) };
        volume.volume.remove_directory(directory)?;
        Ok(0)
    })
}

/// Remove a name of a file that is no directory. The file lives on while it is open.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_unlink(volume: *const egeria_volume, file: *const c_char) -> c_int {
    call(-1, || {
        // SAFETY: as the caller promises.
        let (volume, file) = unsafe { (borrow(volume)?, path(file)?) };
        volume.volume.remove_file(file)?;
        Ok(0)
    })
}

/// Rename; what has the new name is replaced, in one step.
///
/// # Safety
/// The handle is NULL or valid; the paths are NULL or strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_rename(
    volume: *const egeria_volume,
    from: *const c_char,
    to: *const c_char,
) -> c_int {
    call(-1, || {
        // SAFETY: as the caller promises.
        let (volume, from, to) = unsafe { (borrow(volume)?, path(from)?, path(to)?) };
        volume.volume.rename(from, to)?;
        Ok(0)
    })
}

/// Which nodes hold the data of a file: writes up to `room` parts, in the order of the file, and returns how many there
/// are. Holes are left out. `parts` may be NULL when `room` is 0.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string; `parts` has room for `room` parts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn egeria_where(
    volume: *const egeria_volume,
    file: *const c_char,
    parts: *mut egeria_part,
    room: usize,
) -> ssize_t {
    call(-1, || {
        // SAFETY: as the caller promises.
        let (volume, file) = unsafe { (borrow(volume)?, path(file)?) };
        // SAFETY: as the caller promises.
        unsafe { put_parts(&volume.volume.locate(file)?, parts, room) }
    })
}

/// # Safety
/// `parts` has room for `room` parts.
pub(crate) unsafe fn put_parts(
    found: &[Part],
    parts: *mut egeria_part,
    room: usize,
) -> Answer<ssize_t> {
    if room > 0 && (parts.is_null() || !parts.is_aligned()) {
        return Err(failure(libc::EINVAL, "there is no place for the parts"));
    }
    for (at, part) in found.iter().take(room).enumerate() {
        let part = egeria_part {
            offset_bytes: part.offset_bytes,
            length_bytes: part.length_bytes,
            node: part.node.into(),
            pool: part.pool.into(),
        };
        // SAFETY: there is room, as the caller promises.
        unsafe { parts.add(at).write(part) };
    }
    Ok(found.len() as ssize_t)
}
