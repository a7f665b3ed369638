//! What is done by path.

use crate::arguments::{Room, StatPlace, Text};
use crate::call::call;
use crate::volume::VolumeHandle;
use egeria_client::{Metadata, Part};
use libc::{c_int, mode_t, ssize_t, stat};

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

argument_names! {
    Parts = Room<egeria_part>;
}

/// What is known of a file; symbolic links are followed. st_dev is 0.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string; `found` is NULL or has room for one.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_stat(volume: VolumeHandle, file: Text, found: StatPlace) -> c_int {
    call(-1, || {
        let (volume, file) = (volume.get()?, file.path()?);
        let metadata = volume.volume.metadata(file)?;
        found.put(stat_of(&metadata))?;
        Ok(0)
    })
}

/// What is known of a file, or of a symbolic link at the end of the path. st_dev is 0.
///
/// # Safety
/// As `egeria_stat`.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_lstat(volume: VolumeHandle, file: Text, found: StatPlace) -> c_int {
    call(-1, || {
        let (volume, file) = (volume.get()?, file.path()?);
        let metadata = volume.volume.symlink_metadata(file)?;
        found.put(stat_of(&metadata))?;
        Ok(0)
    })
}

pub(crate) fn stat_of(metadata: &Metadata) -> stat {
    const SECOND_NS: i64 = 1_000_000_000;
    // SAFETY: integers, for which zeros are values.
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
pub extern "C" fn egeria_mkdir(volume: VolumeHandle, directory: Text, mode: mode_t) -> c_int {
    call(-1, || {
        let (volume, directory) = (volume.get()?, directory.path()?);
        volume.volume.create_directory(directory, mode)?;
        Ok(0)
    })
}

/// Remove an empty directory.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_rmdir(volume: VolumeHandle, directory: Text) -> c_int {
    call(-1, || {
        let (volume, directory) = (volume.get()?, directory.path()?);
        volume.volume.remove_directory(directory)?;
        Ok(0)
    })
}

/// Remove a name of a file that is no directory. The file lives on while it is open.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_unlink(volume: VolumeHandle, file: Text) -> c_int {
    call(-1, || {
        let (volume, file) = (volume.get()?, file.path()?);
        volume.volume.remove_file(file)?;
        Ok(0)
    })
}

/// Rename; what has the new name is replaced, in one step.
///
/// # Safety
/// The handle is NULL or valid; the paths are NULL or strings.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_rename(volume: VolumeHandle, from: Text, to: Text) -> c_int {
    call(-1, || {
        let (volume, from, to) = (volume.get()?, from.path()?, to.path()?);
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
pub extern "C" fn egeria_where(
    volume: VolumeHandle,
    file: Text,
    parts: Parts,
    room: usize,
) -> ssize_t {
    call(-1, || {
        let (volume, file) = (volume.get()?, file.path()?);
        parts.put(volume.volume.locate(file)?.iter().map(part_of), room)
    })
}

pub(crate) fn part_of(part: &Part) -> egeria_part {
    egeria_part {
        offset_bytes: part.offset_bytes,
        length_bytes: part.length_bytes,
        node: part.node.into(),
        pool: part.pool.into(),
    }
}
