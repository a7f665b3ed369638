//! Reading directories.

use crate::arguments::{Handle, Lent, Place, Returned, Text, hand_out};
use crate::call::{call, failure};
use crate::volume::VolumeHandle;
use egeria_client::{DirectoryEntry, FileType};
use libc::{c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The names of a directory, as they were when it was opened.
pub struct egeria_directory {
    entries: Vec<DirectoryEntry>,
    next: AtomicUsize,
}

impl Handle for egeria_directory {
    const MARK: u64 = 0xE6E1_A003_4449_5245;
}

/// A name in a directory.
#[repr(C)]
pub struct egeria_entry {
    /// Number of the inode.
    pub inode: u64,
    /// DT_REG, DT_DIR, DT_LNK, or DT_UNKNOWN for what is none of them.
    pub file_type: u8,
    /// The name.
    pub name: [c_char; 256],
}

argument_names! {
    DirectoryHandle = Lent<egeria_directory>;
    OwnDirectory = Returned<egeria_directory>;
    EntryPlace = Place<egeria_entry>;
}

/// Read the names of a directory, without `.` and `..`. NULL: it failed.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_opendir(volume: VolumeHandle, directory: Text) -> *mut egeria_directory {
    call(std::ptr::null_mut(), || {
        let (volume, directory) = (volume.get()?, directory.path()?);
        Ok(hand_out(egeria_directory {
            entries: volume.volume.read_directory(directory)?,
            next: AtomicUsize::new(0),
        }))
    })
}

/// The next name: 1, 0 after the last one, -1 when it failed.
///
/// # Safety
/// The handle is NULL or valid; `entry` is NULL or has room for one.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_readdir(directory: DirectoryHandle, entry: EntryPlace) -> c_int {
    call(-1, || {
        let directory = directory.get()?;
        if entry.is_null() {
            return Err(failure(libc::EINVAL, "there is no place for the entry"));
        }
        let count = directory.entries.len();
        let step = |next| (next < count).then_some(next + 1);
        let order = Ordering::Relaxed;
        let Ok(at) = directory.next.fetch_update(order, order, step) else {
            return Ok(0);
        };
        entry.put(entry_of(&directory.entries[at]))?;
        Ok(1)
    })
}

fn entry_of(found: &DirectoryEntry) -> egeria_entry {
    let mut name = [0; 256];
    // One byte less: it ends.
    for (to, from) in name[..255].iter_mut().zip(found.name.as_bytes()) {
        *to = *from as c_char;
    }
    let file_type = match found.file_type {
        FileType::File => libc::DT_REG,
        FileType::Directory => libc::DT_DIR,
        FileType::Symlink => libc::DT_LNK,
        _ => libc::DT_UNKNOWN,
    };
    egeria_entry {
        inode: found.inode,
        file_type,
        name,
    }
}

/// Give the handle back.
///
/// # Safety
/// The handle is NULL or from `egeria_opendir`, and not used any more.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_closedir(directory: OwnDirectory) -> c_int {
    call(-1, || {
        drop(directory.take()?);
        Ok(0)
    })
}
