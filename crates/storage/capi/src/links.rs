//! Links and extended attributes, by path.

use crate::arguments::{Room, Text, Value};
use crate::call::{Answer, call, failure};
use crate::volume::VolumeHandle;
use libc::{c_char, c_int, ssize_t};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

argument_names! {
    Characters = Room<c_char>;
    Octets = Room<u8>;
}

/// Make a symbolic link at a path, which leads to the target.
///
/// # Safety
/// The handle is NULL or valid; the target and the path are NULL or strings.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_symlink(volume: VolumeHandle, target: Text, path: Text) -> c_int {
    call(-1, || {
        let (volume, target, path) = (volume.get()?, target.path()?, path.path()?);
        volume.volume.symlink(target, path)?;
        Ok(0)
    })
}

/// Give a file another name. A symbolic link at the end of `existing` gets the name itself.
///
/// # Safety
/// The handle is NULL or valid; the paths are NULL or strings.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_link(volume: VolumeHandle, existing: Text, path: Text) -> c_int {
    call(-1, || {
        let (volume, existing, path) = (volume.get()?, existing.path()?, path.path()?);
        volume.volume.hard_link(existing, path)?;
        Ok(0)
    })
}

/// Where a symbolic link leads: writes up to `room` characters, without a zero behind them, and returns how many there
/// are. `target` may be NULL when `room` is 0.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string; `target` has room for `room` characters.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_readlink(
    volume: VolumeHandle,
    path: Text,
    target: Characters,
    room: usize,
) -> ssize_t {
    call(-1, || {
        let (volume, path) = (volume.get()?, path.path()?);
        let found = volume.volume.read_link(path)?;
        let bytes = found.as_os_str().as_bytes().iter();
        target.put(bytes.map(|byte| *byte as c_char), room)
    })
}

/// The value of an extended attribute; symbolic links are followed. Returns how many bytes it has; ERANGE if `room` is
/// less, but for a `room` of 0, which only asks.
///
/// # Safety
/// The handle is NULL or valid; path and name are NULL or strings; `value` has room for `room` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_getxattr(
    volume: VolumeHandle,
    path: Text,
    name: Text,
    value: Octets,
    room: usize,
) -> ssize_t {
    call(-1, || {
        let (volume, path, name) = (volume.get()?, path.path()?, name.path()?);
        let found = volume.volume.xattr(path, name)?;
        check_room(found.len(), room)?;
        value.put(found.into_iter(), room)
    })
}

/// The names of all extended attributes, each with a zero behind it; symbolic links are followed. Returns how many
/// characters that are; ERANGE if `room` is less, but for a `room` of 0, which only asks.
///
/// # Safety
/// The handle is NULL or valid; the path is NULL or a string; `names` has room for `room` characters.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_listxattr(
    volume: VolumeHandle,
    path: Text,
    names: Characters,
    room: usize,
) -> ssize_t {
    call(-1, || {
        let (volume, path) = (volume.get()?, path.path()?);
        let found = volume.volume.xattr_names(path)?.into_iter();
        let ended = found.map(OsString::into_vec).map(|name| [name, vec![0]]);
        let all: Vec<u8> = ended.flatten().flatten().collect();
        check_room(all.len(), room)?;
        names.put(all.into_iter().map(|byte| byte as c_char), room)
    })
}

/// Set an extended attribute of the namespace `user`; symbolic links are followed. `user.egeria.layout` and
/// `user.egeria.checksum` of a directory are for what is created in it.
///
/// # Safety
/// The handle is NULL or valid; path and name are NULL or strings; `value` has `bytes` bytes.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_setxattr(
    volume: VolumeHandle,
    path: Text,
    name: Text,
    value: Value,
    bytes: usize,
) -> c_int {
    call(-1, || {
        let (volume, path, name) = (volume.get()?, path.path()?, name.path()?);
        volume.volume.set_xattr(path, name, value.bytes(bytes)?)?;
        Ok(0)
    })
}

/// Remove an extended attribute of the namespace `user`; symbolic links are followed.
///
/// # Safety
/// The handle is NULL or valid; path and name are NULL or strings.
#[unsafe(no_mangle)]
pub extern "C" fn egeria_removexattr(volume: VolumeHandle, path: Text, name: Text) -> c_int {
    call(-1, || {
        let (volume, path, name) = (volume.get()?, path.path()?, name.path()?);
        volume.volume.remove_xattr(path, name)?;
        Ok(0)
    })
}

fn check_room(bytes: usize, room: usize) -> Answer<()> {
    if room == 0 || bytes <= room {
        Ok(())
    } else {
        Err(failure(
            libc::ERANGE,
            "there is no room for all of it; ask with a room of 0 how much it takes",
        ))
    }
}
