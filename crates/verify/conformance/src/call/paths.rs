//! Calls on names and attributes.

use super::{Answer, Errno, answer, errno};
use libc::{c_int, mode_t};
use std::ffi::{CStr, CString};
use std::os::fd::RawFd;
use std::ptr;

/// Any call with a path alone: `unlink`, `rmdir`, `chdir`.
pub fn with_path(
    call: unsafe extern "C" fn(*const libc::c_char) -> c_int,
    path: &CStr,
) -> Answer<()> {
    done!(call(path.as_ptr()))
}

/// `unlink(2)`.
pub fn unlink(path: &CStr) -> Answer<()> {
    with_path(libc::unlink, path)
}

/// `rmdir(2)`.
pub fn rmdir(path: &CStr) -> Answer<()> {
    with_path(libc::rmdir, path)
}

/// `chdir(2)`.
pub fn chdir(path: &CStr) -> Answer<()> {
    with_path(libc::chdir, path)
}

/// `unlinkat(2)`.
pub fn unlinkat(directory: RawFd, path: &CStr, flags: c_int) -> Answer<()> {
    done!(libc::unlinkat(directory, path.as_ptr(), flags))
}

/// `mkdir(2)`.
pub fn mkdir(path: &CStr, mode: mode_t) -> Answer<()> {
    done!(libc::mkdir(path.as_ptr(), mode))
}

/// `mkdirat(2)`.
pub fn mkdirat(directory: RawFd, path: &CStr, mode: mode_t) -> Answer<()> {
    done!(libc::mkdirat(directory, path.as_ptr(), mode))
}

/// `mknod(2)`.
pub fn mknod(path: &CStr, mode: mode_t, device: u64) -> Answer<()> {
    done!(libc::mknod(path.as_ptr(), mode, device))
}

/// `mknodat(2)` of what is no device.
pub fn mknodat(directory: RawFd, path: &CStr, mode: mode_t) -> Answer<()> {
    done!(libc::mknodat(directory, path.as_ptr(), mode, 0))
}

/// `link(2)`.
pub fn link(from: &CStr, to: &CStr) -> Answer<()> {
    done!(libc::link(from.as_ptr(), to.as_ptr()))
}

/// `linkat(2)` with paths relative to these directories.
pub fn linkat(from: (RawFd, &CStr), to: (RawFd, &CStr), flags: c_int) -> Answer<()> {
    done!(libc::linkat(
        from.0,
        from.1.as_ptr(),
        to.0,
        to.1.as_ptr(),
        flags
    ))
}

/// `symlink(2)`.
pub fn symlink(target: &CStr, path: &CStr) -> Answer<()> {
    done!(libc::symlink(target.as_ptr(), path.as_ptr()))
}

/// `readlink(2)` into so much room.
pub fn readlink(path: &CStr, room: usize) -> Answer<Vec<u8>> {
    let mut target = vec![0u8; room];
    let bytes = call!(libc::readlink(
        path.as_ptr(),
        target.as_mut_ptr().cast(),
        room
    ))?;
    target.truncate(bytes as usize);
    Ok(target)
}

/// `realpath(3)` to a place that libc allocates.
pub fn realpath(path: &CStr) -> Answer<CString> {
    // SAFETY: a terminated path; libc allocates the answer.
    let place = unsafe { libc::realpath(path.as_ptr(), ptr::null_mut()) };
    if place.is_null() {
        return Err(errno());
    }
    // SAFETY: a terminated string, ours until it is freed.
    let path = unsafe { CStr::from_ptr(place) }.to_owned();
    // SAFETY: allocated by libc for this.
    unsafe { libc::free(place.cast()) };
    Ok(path)
}

/// `realpath(3)` to a place of the caller's.
pub fn realpath_into(path: &CStr, place: &mut [u8; libc::PATH_MAX as usize]) -> Answer<CString> {
    // SAFETY: a terminated path, and as much room as is demanded.
    let answer = unsafe { libc::realpath(path.as_ptr(), place.as_mut_ptr().cast()) };
    if answer.is_null() {
        return Err(errno());
    }
    let path = CStr::from_bytes_until_nul(place).map(CStr::to_owned);
    path.or(Err(Errno(libc::EINVAL)))
}

/// `rename(2)`.
pub fn rename(from: &CStr, to: &CStr) -> Answer<()> {
    done!(libc::rename(from.as_ptr(), to.as_ptr()))
}

/// `renameat(2)`.
pub fn renameat(from: (RawFd, &CStr), to: (RawFd, &CStr)) -> Answer<()> {
    done!(libc::renameat(from.0, from.1.as_ptr(), to.0, to.1.as_ptr()))
}

/// `renameat2(2)` below the working directory.
pub fn renameat2(from: &CStr, to: &CStr, flags: u32) -> Answer<()> {
    let here = libc::AT_FDCWD;
    done!(libc::renameat2(
        here,
        from.as_ptr(),
        here,
        to.as_ptr(),
        flags
    ))
}

/// `chmod(2)`.
pub fn chmod(path: &CStr, mode: mode_t) -> Answer<()> {
    done!(libc::chmod(path.as_ptr(), mode))
}

/// `fchmod(2)`.
pub fn fchmod(fd: RawFd, mode: mode_t) -> Answer<()> {
    done!(libc::fchmod(fd, mode))
}

/// `fchmodat(2)`.
pub fn fchmodat(directory: RawFd, path: &CStr, mode: mode_t, flags: c_int) -> Answer<()> {
    done!(libc::fchmodat(directory, path.as_ptr(), mode, flags))
}

/// `chown(2)`; `u32::MAX` leaves one as it is.
pub fn chown(path: &CStr, user: u32, group: u32) -> Answer<()> {
    done!(libc::chown(path.as_ptr(), user, group))
}

/// `fchown(2)`.
pub fn fchown(fd: RawFd, user: u32, group: u32) -> Answer<()> {
    done!(libc::fchown(fd, user, group))
}

/// `lchown(2)`.
pub fn lchown(path: &CStr, user: u32, group: u32) -> Answer<()> {
    done!(libc::lchown(path.as_ptr(), user, group))
}

/// `utimensat(2)`; `None` for both now.
pub fn utimensat(
    directory: RawFd,
    path: &CStr,
    times: Option<[libc::timespec; 2]>,
    flags: c_int,
) -> Answer<()> {
    let times = times.as_ref().map_or(ptr::null(), |times| times.as_ptr());
    done!(libc::utimensat(directory, path.as_ptr(), times, flags))
}

/// `futimens(3)`.
pub fn futimens(fd: RawFd, times: [libc::timespec; 2]) -> Answer<()> {
    done!(libc::futimens(fd, times.as_ptr()))
}

/// `access(2)`.
pub fn access(path: &CStr, mode: c_int) -> Answer<()> {
    done!(libc::access(path.as_ptr(), mode))
}

/// `faccessat(2)`.
pub fn faccessat(directory: RawFd, path: &CStr, mode: c_int, flags: c_int) -> Answer<()> {
    done!(libc::faccessat(directory, path.as_ptr(), mode, flags))
}

/// `stat(2)`.
pub fn stat(path: &CStr) -> Answer<libc::stat> {
    filled!(libc::stat, |room| libc::stat(path.as_ptr(), room))
}

/// `lstat(2)`.
pub fn lstat(path: &CStr) -> Answer<libc::stat> {
    filled!(libc::stat, |room| libc::lstat(path.as_ptr(), room))
}

/// `fstat(2)`.
pub fn fstat(fd: RawFd) -> Answer<libc::stat> {
    filled!(libc::stat, |room| libc::fstat(fd, room))
}

/// `fstatat(2)`.
pub fn fstatat(directory: RawFd, path: &CStr, flags: c_int) -> Answer<libc::stat> {
    filled!(libc::stat, |room| libc::fstatat(
        directory,
        path.as_ptr(),
        room,
        flags
    ))
}

/// `statx(2)`.
pub fn statx(directory: RawFd, path: &CStr, flags: c_int, mask: u32) -> Answer<libc::statx> {
    filled!(libc::statx, |room| libc::statx(
        directory,
        path.as_ptr(),
        flags,
        mask,
        room
    ))
}

/// `statfs(2)`.
pub fn statfs(path: &CStr) -> Answer<libc::statfs> {
    filled!(libc::statfs, |room| libc::statfs(path.as_ptr(), room))
}

/// `fstatfs(2)`.
pub fn fstatfs(fd: RawFd) -> Answer<libc::statfs> {
    filled!(libc::statfs, |room| libc::fstatfs(fd, room))
}

/// `statvfs(3)`.
pub fn statvfs(path: &CStr) -> Answer<libc::statvfs> {
    filled!(libc::statvfs, |room| libc::statvfs(path.as_ptr(), room))
}

/// `setxattr(2)`, which follows links.
pub fn set_xattr_of_target(path: &CStr, name: &CStr, value: &[u8]) -> Answer<()> {
    let (data, bytes) = (value.as_ptr().cast(), value.len());
    done!(libc::setxattr(path.as_ptr(), name.as_ptr(), data, bytes, 0))
}

/// `getxattr(2)`, which follows links: the size of the value.
pub fn xattr_bytes_of_target(path: &CStr, name: &CStr) -> Answer {
    let (path, name) = (path.as_ptr(), name.as_ptr());
    call!(libc::getxattr(path, name, ptr::null_mut(), 0))
}

/// `fsetxattr(2)`.
pub fn fset_xattr(fd: RawFd, name: &CStr, value: &[u8]) -> Answer<()> {
    let (data, bytes) = (value.as_ptr().cast(), value.len());
    done!(libc::fsetxattr(fd, name.as_ptr(), data, bytes, 0))
}

/// `fgetxattr(2)`: the size of the value.
pub fn fget_xattr_bytes(fd: RawFd, name: &CStr) -> Answer {
    call!(libc::fgetxattr(fd, name.as_ptr(), ptr::null_mut(), 0))
}

/// `flistxattr(2)`: the size of the list.
pub fn flist_xattr_bytes(fd: RawFd) -> Answer {
    call!(libc::flistxattr(fd, ptr::null_mut(), 0))
}

/// `fremovexattr(2)`.
pub fn fremove_xattr(fd: RawFd, name: &CStr) -> Answer<()> {
    done!(libc::fremovexattr(fd, name.as_ptr()))
}

/// `lsetxattr(2)`.
pub fn set_xattr(path: &CStr, name: &CStr, value: &[u8], flags: c_int) -> Answer<()> {
    let (data, bytes) = (value.as_ptr().cast(), value.len());
    done!(libc::lsetxattr(
        path.as_ptr(),
        name.as_ptr(),
        data,
        bytes,
        flags
    ))
}

/// `lgetxattr(2)` into so much room: the size answered, and what was filled in.
pub fn get_xattr(path: &CStr, name: &CStr, room: usize) -> Answer<(usize, Vec<u8>)> {
    let mut value = vec![0u8; room];
    let data = value.as_mut_ptr().cast();
    let bytes = call!(libc::lgetxattr(path.as_ptr(), name.as_ptr(), data, room))? as usize;
    value.truncate(bytes);
    Ok((bytes, value))
}

/// `llistxattr(2)` into so much room: the size answered, and the names filled in.
pub fn list_xattr(path: &CStr, room: usize) -> Answer<(usize, Vec<CString>)> {
    let mut names = vec![0u8; room];
    let data = names.as_mut_ptr().cast();
    let bytes = call!(libc::llistxattr(path.as_ptr(), data, room))? as usize;
    names.truncate(bytes);
    let name = |name: &[u8]| CString::new(name).expect("no NUL between NULs");
    let split = names
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty());
    Ok((bytes, split.map(name).collect()))
}

/// `lremovexattr(2)`.
pub fn remove_xattr(path: &CStr, name: &CStr) -> Answer<()> {
    done!(libc::lremovexattr(path.as_ptr(), name.as_ptr()))
}
